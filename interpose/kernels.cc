#include "interpose/kernels.h"

#include <string.h>
#include <sys/mman.h>

#include "interpose/handle_map.h"
#include "interpose/python_memory.h"
#include "interpose/state.h"
#include "interpose/stats.h"

namespace traintrace {
namespace {

// Registered kernels: a row of hash tables, each started when the one before is nearly full.
struct Registered {
  uint64_t function;  // 0: free
  const char* name;   // in the module, which is there as long as the function is
};
constexpr uint32_t kSegmentSize = 1U << 13;
constexpr uint32_t kSegments = 64;
constexpr uint32_t kLongestWay = 16;
constinit Registered* g_segments[kSegments] = {};

HandleMap g_defined;  // functions whose definition is written
constexpr uint32_t kMostDefined = 1U << 14;

constexpr size_t kMostName = 4096;  // templates of linear algebra come near it

Registered* find_in(Registered* segment, uint64_t function) {
  for (uint32_t way = 0; way < kLongestWay; ++way) {
    Registered& at = segment[(place_of(function, kSegmentSize) + way) % kSegmentSize];
    const uint64_t there = load(at.function);
    if (there == function) {
      return &at;
    }
    if (there == 0) {
      return nullptr;
    }
  }
  return nullptr;
}

Registered* find_registered(uint64_t function) {
  for (uint32_t i = 0; i < kSegments && load(g_segments[i]) != nullptr; ++i) {
    if (Registered* const found = find_in(load(g_segments[i]), function)) {
      return found;
    }
  }
  return nullptr;
}

Registered* segment_at(uint32_t i) {
  if (Registered* const there = load(g_segments[i])) {
    return there;
  }
  void* const memory = mmap(nullptr, kSegmentSize * sizeof(Registered), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  auto* const mine = static_cast<Registered*>(memory);
  if (!exchange_if(g_segments[i], static_cast<Registered*>(nullptr), mine)) {
    munmap(memory, kSegmentSize * sizeof(Registered));
  }
  return load(g_segments[i]);
}

bool add_to(Registered* segment, uint64_t function, const char* name) {
  for (uint32_t way = 0; way < kLongestWay; ++way) {
    Registered& at = segment[(place_of(function, kSegmentSize) + way) % kSegmentSize];
    if (load(at.function) == 0 && exchange_if(at.function, uint64_t{0}, function)) {
      publish(at.name, name);
      return true;
    }
  }
  return false;
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
  const Registered* const registered = find_registered(function);
  const char* const name = registered == nullptr ? nullptr : load(registered->name);
  if (name != nullptr) {
    define(thread, function, name);
  }
}

}  // namespace

void kernel_registered(uint64_t function, const char* name) noexcept {
  if (function == 0 || name == nullptr) {
    return;
  }
  // At the address of one of a module that is gone: the new name counts from now on.
  if (Registered* const again = find_registered(function)) {
    publish(again->name, name);
    g_defined.erase(function);
    return;
  }
  for (uint32_t i = 0; i < kSegments; ++i) {
    Registered* const segment = segment_at(i);
    if (segment == nullptr || add_to(segment, function, name)) {
      return;
    }
  }
}

void kernel_named(ThreadState& thread, uint64_t function, const char* name) noexcept {
  if (function != 0 && name != nullptr) {
    g_defined.put(function, 1);
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
