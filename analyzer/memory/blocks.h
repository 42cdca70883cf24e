// Memory that a process holds, and whose it is.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

enum class MemoryKind : uint8_t {
  kDevice,
  kManaged,
  kPinned,
  kRegistered,
  kArray,
  kImported,
  kTensor  // cut by PyTorch's allocator from device memory that it holds
};
const char* name_of(MemoryKind kind);
inline bool on_device(MemoryKind kind) {
  return kind == MemoryKind::kDevice || kind == MemoryKind::kManaged || kind == MemoryKind::kArray;
}

// By the innermost native frame that is not CUDA's own; by the Python frames where there is none.
enum class Owner : uint8_t { kJob, kTorch, kNccl, kCudaLibrary, kUnknown };
inline bool is_library(Owner owner) {
  return owner == Owner::kNccl || owner == Owner::kCudaLibrary;
}

// None: what the call makes is no memory of its own (a reserved address range, a mapping).
std::optional<MemoryKind> kind_of_call(std::string_view name);
Owner owner_of(const ProcessTrace& trace, uint32_t id);  // of the stack `id`
// PyTorch's caching allocator called: what it is refused it asks for again once it has given back
// what it had cached.
bool is_caching_allocator(const ProcessTrace& trace, uint32_t stack);
// No Python ran in the thread, as in those of autograd: there is no line that it came from.
bool has_no_line(const ProcessTrace& trace, uint32_t stack);

// Damaged traces may hold any number.
inline uint64_t sum_of(uint64_t a, uint64_t b) {
  return a > ~uint64_t{0} - b ? ~uint64_t{0} : a + b;
}

// Live blocks of one stack, kind and device.
struct BlockGroup {
  uint32_t stack = 0;
  uint32_t call = 0;
  int device = -1;  // -1: not known
  MemoryKind kind = MemoryKind::kDevice;
  Owner owner = Owner::kUnknown;
  uint64_t bytes = 0;
  std::vector<std::pair<TimeNs, uint64_t>> blocks;  // when it was allocated, bytes; by time
  size_t let_go = 0;  // of these blocks; not 0 only where they count all the same
};
// By bytes, most first.  What PyTorch's allocator cut from its memory is apart: its segments are
// among the live groups.
std::vector<BlockGroup> live_groups(const ProcessTrace& trace);
std::vector<BlockGroup> tensor_groups(const ProcessTrace& trace);
// With those that were freed after the last allocation, as Python does at the end of a process.
std::vector<BlockGroup> tensor_groups_before_end(const ProcessTrace& trace);

}  // namespace traintrace
