/* simgpu.h: how a test program gives a simulated kernel a body.
 *
 * simgpu cannot run device code.  A kernel takes the time that the cost model says and does nothing
 * else, unless a body was registered for its name.  On a real GPU the functions below do not exist
 * and simgpu_register() returns 0: the same program runs there with its real kernels.
 *
 * C++ programs write, once, before the first launch:
 *
 *   simgpu::kernel("saxpy", +[](simgpu::Grid grid, float a, const float* x, float* y, int n) { ...
 * });
 *
 * where the parameters after the grid are those of the kernel, in order.
 */
#ifndef SIMGPU_H
#define SIMGPU_H
#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct simgpuLaunch {
  const char* name; /* as the module calls it: mangled for C++ kernels */
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  int device;
  const volatile int*
      cancelled; /* becomes nonzero when the context goes away: a body that waits must return */
  long long start_ns; /* when the work before it was done: CLOCK_MONOTONIC */
  long long* end_ns;  /* where the body may say when it has ended; else when it returns */
} simgpuLaunch;

/* Runs once per launch, on the stream's own thread.  arguments[i] points to the i-th parameter.
 * Returns 0, or the CUresult with which the launch fails asynchronously. */
typedef int (*simgpuKernelBody)(void* const* arguments, const simgpuLaunch* launch, void* user);

/* Gives every kernel whose name matches `name` a body, in this process; the last registration wins.
 * `name` is a C++ mangled name, a plain identifier `f` (matches C kernels and the C++ function f of
 * any signature), or a pattern with '*'.  The strings and sizes are copied.  Thread-safe.  Exported
 * by simgpu's libcuda.so.1. */
typedef void simgpuRegisterKernelFunction(const char* name, simgpuKernelBody body, void* user,
                                          size_t parameter_count, const size_t* parameter_bytes);

/* Returns 1 if registered, 0 where the driver is not simgpu. */
static inline int simgpu_register(const char* name, simgpuKernelBody body, void* user,
                                  size_t parameter_count, const size_t* parameter_bytes) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  simgpuRegisterKernelFunction* call =
      driver ? (simgpuRegisterKernelFunction*)dlsym(driver, "simgpuRegisterKernel")
             : NULL; /* NOLINT(modernize-use-nullptr): C too */
  if (call) {
    call(name, body, user, parameter_count, parameter_bytes);
  }
  return call != NULL; /* NOLINT(modernize-use-nullptr) */
}

#ifdef __cplusplus
} /* extern "C" */

#include <utility>

namespace simgpu {
using Grid = const simgpuLaunch&;

namespace detail {
template <class... P, size_t... I>
int call(void (*body)(Grid, P...), void* const* arguments, const simgpuLaunch* launch,
         std::index_sequence<I...>) {
  body(*launch, *static_cast<P*>(arguments[I])...);
  return 0;
}
}  // namespace detail

template <class... P>
bool kernel(const char* name, void (*body)(Grid, P...)) {
  const size_t bytes[] = {sizeof(P)..., 0};
  const simgpuKernelBody run = [](void* const* arguments, const simgpuLaunch* launch, void* user) {
    return detail::call(reinterpret_cast<void (*)(Grid, P...)>(user), arguments, launch,
                        std::index_sequence_for<P...>{});
  };
  return simgpu_register(name, run, reinterpret_cast<void*>(body), sizeof...(P), bytes) != 0;
}
}  // namespace simgpu
#endif
#endif
