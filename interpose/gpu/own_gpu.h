// What the tracer itself does with a GPU: marks (marks.h) and checks (checks.h), and nothing else.
// Decided once, by the time the first communicator is about to be made: pinning memory or loading a
// kernel later would wait for what runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/record/thread.h"
#include "interpose/tables/communicators.h"
#include "interpose/tables/tables.h"

namespace traintrace {

enum class GpuOccasion : uint8_t {
  kUniqueId,        // communicators are to come, and so may the context
  kCommunicator,    // now or never
  kSeveralDevices,  // of this process, in one call
};
void own_gpu_prepare(ThreadState& thread, GpuOccasion occasion) noexcept;

// Null: the tracer may work on its streams.  Another thread launches what a communicator that does
// not block was given, at its own time.
inline constexpr const char* kDoesNotBlock = "it does not block";
inline constexpr const char* kOtherDevice = "a communicator is on another device of the process";
inline const char* own_gpu_reason_against(const format::Communicator& communicator) noexcept {
  if (communicator.origin == format::kUnknownOrigin) {
    return "it was made before the marks were there";
  }
  // A child does as its parent where its creation does not say otherwise.
  const uint32_t parent = communicator.parent_index;
  const uint32_t flags =
      load(communicator.flags) | (parent == 0 ? 0 : load(communicator_at(parent).flags));
  return (flags & format::kNonBlocking) != 0 ? kDoesNotBlock : nullptr;
}

enum class StreamState : uint8_t {
  kFree,
  kNotNow,        // it captures, or no context is current
  kContextEnded,  // what was pinned is pinned no longer
};
// `pinned`: own_gpu_pin's.
StreamState own_gpu_stream(ThreadState& thread, uint64_t stream, const void* pinned) noexcept;

// Null: the driver lacks it.  The driver's own function: what is preloaded before it has nothing to
// do with our calls.
void* own_gpu_function(const char* name) noexcept;
template <class Function>
bool find_own_gpu(const char* name, Function& into) noexcept {
  into = reinterpret_cast<Function>(own_gpu_function(name));
  return into != nullptr;
}

// The address that the GPU knows it by; 0: refused.
uint64_t own_gpu_pin(ThreadState& thread, void* memory, size_t bytes) noexcept;

// The device for which that was decided; -1: none.
int32_t own_gpu_device() noexcept;

}  // namespace traintrace
