#include "interpose/tables/kernels.h"

#include <string.h>
#include <sys/mman.h>

#include "interpose/python/python_memory.h"
#include "interpose/record/map_memory.h"
#include "interpose/record/stats.h"
#include "interpose/tables/handle_map.h"
#include "interpose/tables/state.h"

namespace traintrace {
namespace {

// Registered kernels, one behind the other: nothing is looked up before a kernel is launched, and
// then all are gone through, once per kernel (10 us where PyTorch has registered 30,000).
struct Registered {
  static constexpr uint32_t kCount = 1U << 16;
  uint64_t functions[kCount];  // 0: not there yet
  const char* names[kCount];   // in the module, which is there as long as the function is
};
constexpr uint32_t kSegments = 8;
constinit Registered* g_segments[kSegments] = {};
constinit uint32_t g_registered = 0;

HandleMap g_defined;  // functions whose definition is written
constexpr uint32_t kMostDefined = 1U << 14;

constexpr size_t kMostName = 4096;  // templates of linear algebra come near it

Registered* segment_at(uint32_t i) {
  if (Registered* const there = load(g_segments[i])) {
    return there;
  }
  auto* const mine = static_cast<Registered*>(map_sparse(sizeof(Registered)));
  if (!mine) {
    return nullptr;
  }
  if (!exchange_if(g_segments[i], static_cast<Registered*>(nullptr), mine)) {
    munmap(mine, sizeof(Registered));
  }
  return load(g_segments[i]);
}

// The place of the newest registration's name; null: there is none.
const char** find_name(uint64_t function) {
  constexpr uint32_t kMost = kSegments * Registered::kCount;
  const uint32_t count = load(g_registered);
  for (uint32_t i = count < kMost ? count : kMost; i-- > 0;) {
    Registered* const segment = load(g_segments[i / Registered::kCount]);
    if (segment != nullptr && load(segment->functions[i % Registered::kCount]) == function) {
      return &segment->names[i % Registered::kCount];
    }
  }
  return nullptr;
}

// Of a text that ought to be there but is not worth a fault.
size_t readable_length(const char* text) {
  ProbedMemory memory;
  const auto address = reinterpret_cast<uint64_t>(text);
  size_t length = 0;
  while (length < kMostName && memory.readable(address + length, 1) && text[length] != '\0') {
    ++length;
  }
  return length;
}

void define(ThreadState& thread, uint64_t function, const char* name) {
  const size_t length = readable_length(name);
  auto* const definition = static_cast<format::KernelDefinition*>(
      begin_definition(thread, format::kKernel, sizeof(format::KernelDefinition) + length));
  if (definition == nullptr) {
    return;
  }
  definition->function = function;
  definition->name_bytes = static_cast<uint32_t>(length);
  memcpy(definition + 1, name, length);
  commit_definition(thread, definition);
}

[[gnu::noinline]] void first_launch(ThreadState& thread, uint64_t function) {
  if (!g_defined.put(function, 1)) {
    return;
  }
  const char** const found = find_name(function);
  const char* const name = found == nullptr ? nullptr : load(*found);
  if (name != nullptr) {
    define(thread, function, name);
  }
}

}  // namespace

void kernel_registered(uint64_t function, const char* name) noexcept {
  if (function == 0 || name == nullptr) {
    return;
  }
  const uint32_t index = take_number(g_registered, kSegments * Registered::kCount);
  Registered* const segment = index == 0 ? nullptr : segment_at((index - 1) / Registered::kCount);
  if (segment != nullptr) {
    const uint32_t place = (index - 1) % Registered::kCount;
    publish(segment->names[place], name);
    publish(segment->functions[place], function);
  } else if (const char** const again = find_name(function)) {
    publish(*again, name);
  }
  // At the address of one of a module that is gone: the new name counts from now on.
  g_defined.erase(function);
}

void kernel_named(ThreadState& thread, uint64_t function, const char* name) noexcept {
  if (function != 0 && name != nullptr) {
    g_defined.put(function, 1);
    define(thread, function, name);
  }
}

void kernel_seen(ThreadState& thread, uint64_t function, const char* name) noexcept {
  if (g_defined.find(function) == 0 && g_defined.put(function, 1)) {
    define(thread, function, name);
  }
}

void kernel_launched(ThreadState& thread, uint64_t function) noexcept {
  if (function != 0 && g_defined.find(function) == 0) [[unlikely]] {
    first_launch(thread, function);
  }
}

void kernels_start() noexcept {
  g_defined.start(kMostDefined);
}

void kernels_drop() noexcept {
  g_defined.drop();
}

}  // namespace traintrace
