// What calls and numbers of a recorded trace mean in a timeline.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "analyzer/reader/process_trace.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/timeline.h"
#include "format/hashes.h"

namespace traintrace {

inline bool has_field(const CallSchema& schema, std::string_view name) {
  return std::any_of(schema.fields.begin(), schema.fields.end(),
                     [&](const FieldSchema& field) { return field.name == name; });
}

// 0: it has no such field.
inline uint64_t value_of(const ProcessTrace& trace, const CallRecord& event,
                         std::string_view field) {
  const std::vector<FieldSchema>& fields = trace.calls[event.call].fields;
  const auto values = trace.values_of(event);
  for (size_t i = 0; i < fields.size() && i < values.size(); ++i) {
    if (fields[i].name == field) {
      return values[i];
    }
  }
  return 0;
}

inline bool is_lost(const ProcessTrace& trace, std::string_view stat) {
  return std::any_of(trace.losses.begin(), trace.losses.end(),
                     [&](const LossText& loss) { return loss.stat == stat && loss.count != 0; });
}

// -1: not known.
inline int16_t device_of(const CallRecord& event) {
  return static_cast<int16_t>(event.device == format::kNoDevice ? -1 : event.device);
}

// Never 0.
inline uint16_t shape_of(uint64_t grid, uint64_t block) {
  return static_cast<uint16_t>(format::mixed(grid, block) % 65535 + 1);
}

// NCCL needs some 10 us until it launches.  Where it takes much longer it waits on the host for
// peers, to connect with them.
inline bool waits_for_peers(const ProcessTrace& trace, const CallRecord& outer,
                            const CallRecord& launching) {
  return trace.calls[outer.call].library == "nccl" &&
         launching.enter - outer.enter >= kWaitsForPeersNs;
}

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

// Whether it returns at once, as from pinned memory, or when the copy is done, as from pageable
// memory, its name does not say.
inline bool copies_to_host(const CallSchema& schema, const ProcessTrace& trace,
                           const CallRecord& event) {
  constexpr uint64_t kToHost = 2;  // cudaMemcpyDeviceToHost
  return schema.kind == "copy" && (schema.name.starts_with("cuMemcpyDtoH") ||
                                   value_of(trace, event, "direction") == kToHost);
}

inline bool copies_to_device(const CallSchema& schema, const ProcessTrace& trace,
                             const CallRecord& event) {
  constexpr uint64_t kToDevice = 1;  // cudaMemcpyHostToDevice
  return schema.kind == "copy" && (schema.name.starts_with("cuMemcpyHtoD") ||
                                   value_of(trace, event, "direction") == kToDevice);
}

inline constexpr const char* kCopyFromPageable = "Memcpy HtoD (Pageable -> Device)";

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

// By the field `path` of gpuCopy.
inline std::string copy_name(uint64_t path) {
  return fmt::format("Memcpy {} ({} -> {})", direction_name(path & 0xff),
                     memory_name(path >> 8 & 0xff), memory_name(path >> 16 & 0xff));
}
inline bool is_pageable(uint64_t path) {
  constexpr uint64_t kPageable = 1;  // CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
  return (path >> 8 & 0xff) == kPageable || (path >> 16 & 0xff) == kPageable;
}

// Of CUPTI's kinds of overhead those that it causes itself: it also tells of what the driver does
// for the job, as compiling, loading, and waiting for room in a queue.
inline bool is_of_profiler(uint64_t overhead) {
  constexpr uint64_t kOwn[] = {1, 2, 3, 7};  // flush, instrumentation, resource, buffer request
  return std::any_of(std::begin(kOwn), std::end(kOwn),
                     [&](uint64_t kind) { return overhead == kind << 16; });
}

}  // namespace traintrace
