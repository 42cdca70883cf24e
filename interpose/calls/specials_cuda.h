// What rows of calls.def cannot say about the runtime and the driver: which device the thread is on
// from now on, and which name belongs to a function.
#pragma once

#include "interpose/calls/traced.h"
#include "interpose/tables/context_devices.h"

namespace traintrace {

struct NothingBefore {
  static void before(OpenFrame&, Scratch&, auto...) {}
};

inline void chose_device(ThreadState& thread, uint8_t device) {
  thread.device = device;
  thread.device_chosen = true;
}

template <class Context>
struct CreatesContext : NothingBefore {
  static void remember(OpenFrame& frame, const Context* context, int device) {
    if (context) {
      remember_context(reinterpret_cast<uint64_t>(*context), device);
      chose_device(*frame.thread, device_or_none(device));
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
  chose_device(thread, device);
}
inline void pop_device(ThreadState& thread) {
  chose_device(thread,
               thread.pushed_count
                   ? thread.pushed_devices[--thread.pushed_count % ThreadState::kMaxPushedDevices]
                   : format::kNoDevice);
}

}  // namespace traintrace
