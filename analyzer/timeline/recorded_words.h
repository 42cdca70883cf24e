// What calls and numbers of a recorded trace mean in a timeline.
#pragma once

#include <cstdint>
#include <iterator>

#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

inline HostCallKind kind_of(const CallSchema& call) {
  if (call.kind == "sync" || call.name == "cudaMemcpy" || call.name == "cuMemcpyDtoH_v2" ||
      call.name == "cuMemcpyHtoD_v2") {
    return HostCallKind::kBlocking;
  }
  if (call.kind == "alloc" || call.kind == "free" || call.kind == "module") {
    return HostCallKind::kAllocator;
  }
  return call.kind == "comm-init" ? HostCallKind::kPeerWait : HostCallKind::kOther;
}

// "Pageable"; as PyTorch's profiler calls them.
inline const char* memory_name(uint64_t kind) {
  constexpr const char* kNames[] = {"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed"};
  return kNames[kind < std::size(kNames) ? kind : 0];
}
inline const char* direction_name(uint64_t kind) {
  constexpr const char* kNames[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                    "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  return kNames[kind < std::size(kNames) ? kind : 0];
}

}  // namespace traintrace
