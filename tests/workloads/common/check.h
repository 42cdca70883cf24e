// Error checks of the workloads: what is not as it must be ends the program with status 1 and says
// where, which call, why.
#pragma once
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

// Other threads may be inside the vendors' libraries, so nothing is torn down.
[[noreturn]] __attribute__((format(printf, 3, 4))) inline void fail(const char* file, int line,
                                                                    const char* format, ...) {
  fprintf(stderr, "%s:%d: ", file, line);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  fflush(stdout);
  _exit(1);
}

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)

// CHECK(condition, "format", values ..)
#define CHECK(condition, ...) \
  do {                        \
    if (!(condition)) {       \
      FAIL(__VA_ARGS__);      \
    }                         \
  } while (0)

#define CUDA_CHECK(call) CUDA_EXPECT(cudaSuccess, call)

// The call must return this error and no other.
#define CUDA_EXPECT(expected, call)                                               \
  do {                                                                            \
    const cudaError_t error_of_call = (call);                                     \
    if (error_of_call != (expected)) {                                            \
      FAIL("%s returned %s (%s), not %s", #call, cudaGetErrorName(error_of_call), \
           cudaGetErrorString(error_of_call), cudaGetErrorName(expected));        \
    }                                                                             \
  } while (0)
