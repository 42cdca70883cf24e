// What rows of calls.def cannot say about the runtime and the driver: which device the thread is on
// from now on, and which name belongs to a function.
#pragma once

#include "interpose/context_devices.h"
#include "interpose/traced.h"

namespace traintrace {

struct NothingBefore {
  static void before(OpenFrame&, Scratch&, auto...) {}
};

template <class Context>
struct CreatesContext : NothingBefore {
  static void remember(OpenFrame& frame, const Context* context, int device) {
    if (context) {
      remember_context(reinterpret_cast<uint64_t>(*context), device);
      frame.thread->device = device_or_none(device);
    }
  }
};

template <class Function>
struct NamesFunction : NothingBefore {
  template <class Module>
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, const Function* function,
                    Module, const char* name) {
    if (result == 0 && function && name) {
      kernel_named(*frame.thread, reinterpret_cast<uint64_t>(*function), name);
    }
  }
};

// The thread's device as cuCtxPushCurrent and PopCurrent change it.
inline void push_device(ThreadState& thread, uint8_t device) {
  thread.pushed_devices[thread.pushed_count++ % ThreadState::kMaxPushedDevices] = thread.device;
  thread.device = device;
}
inline void pop_device(ThreadState& thread) {
  thread.device =
      thread.pushed_count
          ? thread.pushed_devices[--thread.pushed_count % ThreadState::kMaxPushedDevices]
          : format::kNoDevice;
}

}  // namespace traintrace
