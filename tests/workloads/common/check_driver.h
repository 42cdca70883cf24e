// The same for the driver's API.
#pragma once
#include <cuda.h>

#include "check.h"

inline const char* name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "unknown error";
}

#define CU_EXPECT(expected, call)                                                        \
  do {                                                                                   \
    const CUresult result_of_call = (call);                                              \
    if (result_of_call != (expected)) {                                                  \
      FAIL("%s returned %s, not %s", #call, name_of(result_of_call), name_of(expected)); \
    }                                                                                    \
  } while (0)
#define CU_CHECK(call) CU_EXPECT(CUDA_SUCCESS, call)
