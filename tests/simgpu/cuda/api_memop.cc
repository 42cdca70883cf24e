#include <cuda.h>

#include "common/entry.h"
#include "cuda/per_thread.h"
#include "cuda/stream_work.h"

using namespace simgpu;

namespace {

CUresult enqueue(CUstream handle, const CUstreamBatchMemOpParams* operations, unsigned count) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<const Work> work;
  SIMGPU_TRY(find_stream(handle, stream));
  SIMGPU_TRY(make_memop_work(operations, count, work));
  return submit(*stream, std::move(work));
}

CUresult enqueue(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address,
                 cuuint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams operation = {};
  // waitValue and writeValue have the same layout up to the flags.
  operation.waitValue = {type, address, {.value64 = value}, flags, 0};
  return enqueue(stream, &operation, 1);
}

static_assert(offsetof(CUstreamBatchMemOpParams, waitValue.flags) ==
              offsetof(CUstreamBatchMemOpParams, writeValue.flags));

}  // namespace

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  return enqueue(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  return enqueue(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  return enqueue(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  return enqueue(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                               CUstreamBatchMemOpParams* operations, unsigned flags) {
  SIMGPU_DRIVER_ENTER();
  if (flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return enqueue(stream, operations, count);
}

SIMGPU_PER_THREAD(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz);
SIMGPU_PER_THREAD(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz);
SIMGPU_PER_THREAD(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz);
SIMGPU_PER_THREAD(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz);
SIMGPU_PER_THREAD(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz);
