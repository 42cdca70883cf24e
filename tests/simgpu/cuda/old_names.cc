#include "cuda/old_names.h"

#include <cudaTypedefs.h>

#include <type_traits>

// Only the symbols' spelling counts below: undo the header's renaming.
#undef cuGetProcAddress
#undef cuEventElapsedTime
#undef cuEventDestroy
#undef cuStreamDestroy
#undef cuCtxDestroy
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuDeviceGetUuid
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp

static_assert(std::is_same_v<PFN_cuGetProcAddress_v11030, decltype(&simgpu_old_cuGetProcAddress)>);
static_assert(std::is_same_v<PFN_cuEventElapsedTime_v2000, PFN_cuEventElapsedTime_v12080>);
static_assert(std::is_same_v<PFN_cuDeviceGetUuid_v9020, PFN_cuDeviceGetUuid_v11040>);

SIMGPU_OLD_NAME(cuGetProcAddress, simgpu_old_cuGetProcAddress);
SIMGPU_OLD_NAME(cuEventElapsedTime, cuEventElapsedTime_v2);
SIMGPU_OLD_NAME(cuEventDestroy, cuEventDestroy_v2);
SIMGPU_OLD_NAME(cuStreamDestroy, cuStreamDestroy_v2);
SIMGPU_OLD_NAME(cuCtxDestroy, cuCtxDestroy_v2);
SIMGPU_OLD_NAME(cuCtxPopCurrent, cuCtxPopCurrent_v2);
SIMGPU_OLD_NAME(cuCtxPushCurrent, cuCtxPushCurrent_v2);
SIMGPU_OLD_NAME(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
SIMGPU_OLD_NAME(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);
SIMGPU_OLD_NAME(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);
SIMGPU_OLD_NAME(cuDeviceGetUuid, cuDeviceGetUuid_v2);
// The first versions of the stream memory operations differ only in which devices allow them.
SIMGPU_OLD_NAME(cuStreamWaitValue32, cuStreamWaitValue32_v2);
SIMGPU_OLD_NAME(cuStreamWaitValue32_ptsz, cuStreamWaitValue32_v2_ptsz);
SIMGPU_OLD_NAME(cuStreamWaitValue64, cuStreamWaitValue64_v2);
SIMGPU_OLD_NAME(cuStreamWaitValue64_ptsz, cuStreamWaitValue64_v2_ptsz);
SIMGPU_OLD_NAME(cuStreamWriteValue32, cuStreamWriteValue32_v2);
SIMGPU_OLD_NAME(cuStreamWriteValue32_ptsz, cuStreamWriteValue32_v2_ptsz);
SIMGPU_OLD_NAME(cuStreamWriteValue64, cuStreamWriteValue64_v2);
SIMGPU_OLD_NAME(cuStreamWriteValue64_ptsz, cuStreamWriteValue64_v2_ptsz);
SIMGPU_OLD_NAME(cuStreamBatchMemOp, cuStreamBatchMemOp_v2);
SIMGPU_OLD_NAME(cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp_v2_ptsz);
