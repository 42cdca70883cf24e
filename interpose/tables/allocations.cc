#include "interpose/tables/allocations.h"

#include <string.h>

#include "interpose/record/growth.h"
#include "interpose/record/stats.h"
#include "interpose/tables/live_index.h"
#include "interpose/tables/state.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

using format::CallId;

// One address may be reserved, mapped and registered at the same time, and handles of memory are
// numbers of their own: what a call is about says which of them it means.
enum class Space : uint8_t { kMemory, kHandle, kReserved, kMapped, kRegistered, kArray };

struct SpaceOfName {
  const char* part;
  Space space;
};
// The first one that a call's name contains says it.
constexpr SpaceOfName kSpacesOfNames[] = {
    {"AddressReserve", Space::kReserved},
    {"AddressFree", Space::kReserved},
    {"HostRegister", Space::kRegistered},
    {"HostUnregister", Space::kRegistered},
    {"cuMemCreate", Space::kHandle},
    {"cuMemRelease", Space::kHandle},
    {"AllocationHandle", Space::kHandle},
    {"ShareableHandle", Space::kHandle},
    {"cuMemMap", Space::kMapped},
    {"cuMemUnmap", Space::kMapped},
    {"Array", Space::kArray},
};
Space g_spaces[format::kCallCount];  // by call id

Space space_named(const char* name) {
  for (const SpaceOfName& entry : kSpacesOfNames) {
    if (strstr(name, entry.part) != nullptr) {
      return entry.space;
    }
  }
  return Space::kMemory;
}

// CUDA Runtime API, Device Management: device 0 is current to a thread that never chose one.  What
// takes memory from a pool has it from the device of the pool or of the stream.
bool is_from_current_device(const char* name) {
  return strncmp(name, "cudaMalloc", 10) == 0 && strstr(name, "Host") == nullptr &&
         strstr(name, "Async") == nullptr && strstr(name, "Managed") == nullptr;
}
bool g_from_current_device[format::kCallCount];  // by call id

LiveIndex g_index;

uint64_t key_of(CallId call, uint64_t address) {
  return address ^ static_cast<uint64_t>(g_spaces[static_cast<size_t>(call)]) << 60;
}

constexpr uint64_t kFreed = 1;  // Allocation::address

void remove(uint32_t index) {
  publish(g_tables.allocations[index].address, kFreed);
  g_index.give_back(index);
}

}  // namespace

uint8_t device_allocating(const ThreadState& thread, uint16_t call) noexcept {
  return !thread.device_chosen && g_from_current_device[call] ? 0 : thread.device;
}

void allocated(ThreadState& thread, CallId call, uint64_t address, uint64_t bytes, uint64_t stream,
               uint32_t stack, uint64_t ticks) noexcept {
  const uint64_t key = key_of(call, address);
  if (address == 0 || key == 0) {
    return;
  }
  // Handed out again although its free was not seen (a device reset, a pool's end).
  const LiveIndex::Taken place = g_index.take_or_grow(key, kGrowAllocations);
  if (place.index == LiveIndex::kNone) {
    count(format::Stat::AllocationsFull);
    return;
  }
  replace(g_tables.allocations[place.index],
          {address, bytes, ticks, stream, stack, static_cast<uint16_t>(call),
           device_allocating(thread, static_cast<uint16_t>(call)), 0},
          kFreed);
}

void freed(ThreadState&, CallId call, uint64_t address) noexcept {
  const uint64_t key = key_of(call, address);
  if (address == 0 || key == 0) {
    return;
  }
  const uint32_t index = g_index.find(key);
  if (index == LiveIndex::kNone) {
    count(format::Stat::UnknownFree);
    return;
  }
  remove(index);
}

// One begins where the one before ends; where that was not seen, at a multiple of what can be
// mapped at all.
void freed_range(ThreadState&, CallId call, uint64_t address, uint64_t bytes) noexcept {
  constexpr uint64_t kSmallest = uint64_t{2} << 20;
  constexpr int kMostSteps = 1 << 14;
  uint64_t offset = 0;
  int found = 0;
  for (int steps = 0; address != 0 && steps < kMostSteps && offset < bytes; ++steps) {
    const uint32_t index = g_index.find(key_of(call, address + offset));
    if (index == LiveIndex::kNone) {
      offset += kSmallest;
      continue;
    }
    const uint64_t length = g_tables.allocations[index].bytes;
    offset += length != 0 ? length : kSmallest;
    ++found;
    remove(index);
  }
  if (address != 0 && found == 0) {
    count(format::Stat::UnknownFree);
  }
}

void allocations_start() noexcept {
  for (size_t call = 0; call < format::kCallCount; ++call) {
    g_spaces[call] = space_named(format::kCalls[call].name);
    g_from_current_device[call] = is_from_current_device(format::kCalls[call].name);
  }
  g_index.start(ready_bytes(g_tables.file, format::kAllocations) / sizeof(format::Allocation));
}

bool allocations_grow() noexcept {
  const uint64_t elements = elements_before_step(g_index.steps() + 1);
  return g_index.steps() < kMostTableSteps &&
         grow_to(format::kAllocations, elements * sizeof(format::Allocation)) && g_index.grow();
}

void allocations_drop() noexcept {
  g_index.drop();
}

}  // namespace traintrace
