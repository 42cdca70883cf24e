// How an exported function of the runtime is written: once, as the body that follows
//
//   SIMGPU_RT(context, cudaMalloc, (void** pointer, size_t bytes), (pointer, bytes)) {
//     return g_driver.cuMemAlloc(...);
//   }
//
// The macro makes the exported function from it.  That one logs itself, fails if a test asked for
// it (SIMGPU_ENTER), brings up what the body needs, and remembers a failure as last error.
// The first argument says what is needed: nothing, driver (cuInit), or context (of this thread).
//
// SIMGPU_RT_STREAM defines two functions, for the legacy and for the per-thread default stream
// (suffix _ptsz or _ptds); the body calls the driver through its parameter `calls`.
//
// The vendor's header declares both, so a wrong signature does not compile.
#pragma once
#include "common/entry.h"
#include "cudart/context.h"
#include "cudart/driver.h"
#include "cudart/status.h"
#include "cudart/version.h"

#define SIMGPU_UNPAREN(...) __VA_ARGS__

// SIMGPU_ENTER that remembers an injected failure as the runtime remembers any other.
#define SIMGPU_RT_ENTER()                                     \
  static constinit simgpu::Entry simgpu_entry{__func__};      \
  const simgpu::Leaving simgpu_leaving(simgpu_entry);         \
  if (const int simgpu_injected = simgpu_entry.enter()) {     \
    return record(static_cast<cudaError_t>(simgpu_injected)); \
  }

#define SIMGPU_RT(need, name, params, args)                                                      \
  static Status name##_body params;                                                              \
  extern "C" cudaError_t name params {                                                           \
    SIMGPU_RT_ENTER();                                                                           \
    const Status simgpu_ready = need_##need();                                                   \
    return record(__builtin_expect(simgpu_ready.failed(), 0) ? simgpu_ready : name##_body args); \
  }                                                                                              \
  static Status name##_body params

#define SIMGPU_RT_VARIANT(need, name, exported, member, params, args)       \
  extern "C" cudaError_t exported params {                                  \
    SIMGPU_RT_ENTER();                                                      \
    const Status simgpu_ready = need_##need();                              \
    return record(__builtin_expect(simgpu_ready.failed(), 0)                \
                      ? simgpu_ready                                        \
                      : name##_body(g_driver.member, SIMGPU_UNPAREN args)); \
  }

#define SIMGPU_RT_STREAM(need, name, suffix, params, args)                    \
  static Status name##_body(const StreamCalls& calls, SIMGPU_UNPAREN params); \
  SIMGPU_RT_VARIANT(need, name, name, legacy, params, args)                   \
  SIMGPU_RT_VARIANT(need, name, name##suffix, per_thread, params, args)       \
  static Status name##_body(const StreamCalls& calls, SIMGPU_UNPAREN params)
