#include "cuda/copy_submit.h"

#include "cuda/capture.h"
#include "cuda/copy.h"

namespace simgpu {
namespace {

// Larger pageable sources do not fit the staging memory at once.
constexpr size_t kStagedBytes = 64 << 10;

CUresult submit_and_maybe_wait(Stream& stream, std::shared_ptr<const Work> work, bool wait) {
  Ticket ticket;
  SIMGPU_TRY(submit(stream, std::move(work), &ticket));
  if (!wait) {
    return CUDA_SUCCESS;
  }
  ticket.wait();
  return static_cast<CUresult>(stream.context->fault->error.load());
}

bool from_pageable(const CopyPlan& plan) {
  return plan.source.place == Place::kPageable && !plan.destination.host();
}

bool sync_copy_waits(const CopyPlan& plan) {
  const bool inside_devices =
      plan.source.place == Place::kDevice && plan.destination.place == Place::kDevice;
  return !inside_devices || plan.source.sync_memops || plan.destination.sync_memops;
}

bool async_copy_waits(const CopyPlan& plan) {
  return from_pageable(plan) || plan.destination.place == Place::kPageable ||
         (plan.source.host() && plan.destination.host());
}

}  // namespace

CUresult copy_now(const CUDA_MEMCPY3D& parameters) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(nullptr, stream));
  CopyPlan plan;
  SIMGPU_TRY(plan_copy(parameters, plan));
  SIMGPU_TRY(forbid_captured(*stream));
  if (plan.bytes() == 0) {
    return CUDA_SUCCESS;
  }
  bool wait = sync_copy_waits(plan);
  if (from_pageable(plan) && plan.bytes() <= kStagedBytes && !plan.destination.sync_memops) {
    stage_source(plan);
    wait = false;
  }
  return submit_and_maybe_wait(*stream, work_of(std::move(plan)), wait);
}

CUresult copy_async(const CUDA_MEMCPY3D& parameters, Stream& stream, CUmemcpySrcAccessOrder order) {
  CopyPlan plan;
  SIMGPU_TRY(plan_copy(parameters, plan));
  if (plan.bytes() == 0) {
    return CUDA_SUCCESS;
  }
  if (stream.capturing.load(std::memory_order_acquire)) {
    return submit(stream, work_of(std::move(plan)));
  }
  bool wait = async_copy_waits(plan);
  const bool small = from_pageable(plan) && plan.bytes() <= kStagedBytes;
  const bool during_call = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL &&
                           plan.source.host() && !plan.destination.host();
  if (small || during_call) {
    stage_source(plan);
    wait = false;
  }
  return submit_and_maybe_wait(stream, work_of(std::move(plan)), wait);
}

CUresult copy_async(const CUDA_MEMCPY3D& parameters, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  return copy_async(parameters, *stream, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
}

CUresult set_now(const CUDA_MEMSET_NODE_PARAMS& parameters) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(nullptr, stream));
  std::shared_ptr<const Work> work;
  SIMGPU_TRY(make_set_work(parameters, work));
  SIMGPU_TRY(forbid_captured(*stream));
  if (parameters.width == 0 || parameters.height == 0) {
    return CUDA_SUCCESS;
  }
  const Located located = locate(parameters.dst, 1);
  const bool wait = located.place != Place::kDevice || located.sync_memops;
  return submit_and_maybe_wait(*stream, std::move(work), wait);
}

CUresult set_async(const CUDA_MEMSET_NODE_PARAMS& parameters, CUstream handle) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  std::shared_ptr<const Work> work;
  SIMGPU_TRY(make_set_work(parameters, work));
  if (parameters.width == 0 || parameters.height == 0) {
    return CUDA_SUCCESS;
  }
  return submit(*stream, std::move(work));
}

CUDA_MEMCPY3D copy_of(const CUDA_MEMCPY2D& p) {
  CUDA_MEMCPY3D copy = {};
  copy.srcXInBytes = p.srcXInBytes;
  copy.srcY = p.srcY;
  copy.srcMemoryType = p.srcMemoryType;
  copy.srcHost = p.srcHost;
  copy.srcDevice = p.srcDevice;
  copy.srcArray = p.srcArray;
  copy.srcPitch = p.srcPitch;
  copy.dstXInBytes = p.dstXInBytes;
  copy.dstY = p.dstY;
  copy.dstMemoryType = p.dstMemoryType;
  copy.dstHost = p.dstHost;
  copy.dstDevice = p.dstDevice;
  copy.dstArray = p.dstArray;
  copy.dstPitch = p.dstPitch;
  copy.WidthInBytes = p.WidthInBytes;
  copy.Height = p.Height;
  copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D copy_of(const CUDA_MEMCPY3D_PEER& p) {
  CUDA_MEMCPY3D copy = {};
  copy.srcXInBytes = p.srcXInBytes;
  copy.srcY = p.srcY;
  copy.srcZ = p.srcZ;
  copy.srcLOD = p.srcLOD;
  copy.srcMemoryType = p.srcMemoryType;
  copy.srcHost = p.srcHost;
  copy.srcDevice = p.srcDevice;
  copy.srcArray = p.srcArray;
  copy.srcPitch = p.srcPitch;
  copy.srcHeight = p.srcHeight;
  copy.dstXInBytes = p.dstXInBytes;
  copy.dstY = p.dstY;
  copy.dstZ = p.dstZ;
  copy.dstLOD = p.dstLOD;
  copy.dstMemoryType = p.dstMemoryType;
  copy.dstHost = p.dstHost;
  copy.dstDevice = p.dstDevice;
  copy.dstArray = p.dstArray;
  copy.dstPitch = p.dstPitch;
  copy.dstHeight = p.dstHeight;
  copy.WidthInBytes = p.WidthInBytes;
  copy.Height = p.Height;
  copy.Depth = p.Depth;
  return copy;
}

}  // namespace simgpu
