#include <cuda.h>

#include <cstdlib>
#include <cstring>

#include "common/entry.h"
#include "cuda/launch.h"
#include "cuda/per_thread.h"

using namespace simgpu;

namespace {

// CUDA_LAUNCH_BLOCKING=1: a launch returns when its kernel has ended.
bool launches_block() {
  static const bool block = [] {
    const char* text = getenv("CUDA_LAUNCH_BLOCKING");
    return text && strcmp(text, "1") == 0;
  }();
  return block;
}

CUresult launch(const CUDA_KERNEL_NODE_PARAMS& parameters, CUstream handle, bool cooperative,
                std::vector<CUlaunchAttribute> attributes) {
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  if (stream->context != current_context()) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  std::shared_ptr<const Work> work;
  SIMGPU_TRY(make_kernel_work(parameters, cooperative, std::move(attributes), work));
  if (launches_block() && !stream->capturing.load()) {
    return submit_and_wait(*stream, std::move(work));
  }
  return submit(*stream, std::move(work));
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** arguments, void** extra) {
  SIMGPU_CONTEXT_ENTER();
  const CUDA_KERNEL_NODE_PARAMS parameters = {function,  grid_x,  grid_y,  grid_z,
                                              block_x,   block_y, block_z, shared_bytes,
                                              arguments, extra,   nullptr, nullptr};
  return launch(parameters, stream, false, {});
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** arguments) {
  SIMGPU_CONTEXT_ENTER();
  const CUDA_KERNEL_NODE_PARAMS parameters = {function,  grid_x,  grid_y,  grid_z,
                                              block_x,   block_y, block_z, shared_bytes,
                                              arguments, nullptr, nullptr, nullptr};
  CUlaunchAttribute cooperative = {};  // for captured launches: a node tells it again
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  return launch(parameters, stream, true, {cooperative});
}

// Cooperative launches are checked; the other attributes
// (clusters, priorities, cache windows, programmatic serialisation) are kept for the graph
// functions only. SIMGPU_DIFFERS(cuLaunchKernelEx): launch attributes other than COOPERATIVE have
// no effect
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void** extra) {
  SIMGPU_CONTEXT_ENTER();
  if (!config || (config->numAttrs && !config->attrs)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    cooperative = cooperative ||
                  (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative);
  }
  const CUDA_KERNEL_NODE_PARAMS parameters = {function,          config->gridDimX,
                                              config->gridDimY,  config->gridDimZ,
                                              config->blockDimX, config->blockDimY,
                                              config->blockDimZ, config->sharedMemBytes,
                                              arguments,         extra,
                                              nullptr,           nullptr};
  return launch(parameters, config->hStream, cooperative,
                {config->attrs, config->attrs + config->numAttrs});
}

SIMGPU_PER_THREAD(cuLaunchKernel, cuLaunchKernel_ptsz);
SIMGPU_PER_THREAD(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz);
SIMGPU_PER_THREAD(cuLaunchKernelEx, cuLaunchKernelEx_ptsz);

// Called by the other simulated libraries for SIMGPU_FAIL=...:async (common/entry.cc).
extern "C" void simgpuFailNextWork(int code) {
  set_async_failure(code);
}
