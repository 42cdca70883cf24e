// Modules, kernels and what a launch does.
#pragma once
#include <cuda.h>

#include <map>
#include <string>

#include "cuda/state.h"
#include "simgpu.h"

namespace simgpu {

struct KernelParameter {
  size_t offset = 0;
  size_t bytes = 0;
};

// A kernel of a loaded module.  Owned by its module, immutable but for the attributes.
struct Kernel {
  std::string name;
  std::vector<KernelParameter> parameters;  // empty if the image does not tell
  bool parameters_known = false;
  std::map<int, int> attributes;  // CUfunction_attribute -> value set by the program
};

// Fills in `work` for a launch.  Arguments are copied here.  `cluster`, attributes: accepted, no effect.
CUresult make_kernel_work(const CUDA_KERNEL_NODE_PARAMS& parameters,
                          std::shared_ptr<const Work>& work);
// If `work` is a kernel launch: its parameters.  kernelParams points into `work`.
bool kernel_params_of(const Work& work, CUDA_KERNEL_NODE_PARAMS& parameters);
// The launch attributes (CUlaunchAttribute) that came with cuLaunchKernelEx; none otherwise.
std::vector<CUlaunchAttribute> launch_attributes_of(const Work& work);

}  // namespace simgpu
