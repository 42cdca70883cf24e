// The same for NCCL.
#pragma once
#include <nccl.h>

#include "check.h"

#define NCCL_EXPECT(expected, call)                                                      \
  do {                                                                                   \
    const ncclResult_t result_of_call = (call);                                          \
    if (result_of_call != (expected)) {                                                  \
      FAIL("%s returned '%s' (%s), not '%s'", #call, ncclGetErrorString(result_of_call), \
           ncclGetLastError(nullptr), ncclGetErrorString(expected));                     \
    }                                                                                    \
  } while (0)
#define NCCL_CHECK(call) NCCL_EXPECT(ncclSuccess, call)
