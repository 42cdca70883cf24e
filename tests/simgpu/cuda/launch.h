// Kernels and what a launch does.
#pragma once
#include <cuda.h>

#include <atomic>
#include <map>
#include <string>

#include "cuda/state.h"
#include "simgpu.h"

namespace simgpu {

struct KernelParameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct Module;

// What a program registered for a kernel's name (simgpu.h).  Never freed.
struct KernelBody {
  std::string pattern;
  simgpuKernelBody run = nullptr;
  void* user = nullptr;
  std::vector<size_t> parameter_bytes;
};

// A kernel of a loaded module: what both CUfunction and CUkernel point to.  Never freed, so that a
// handle of an unloaded module is recognised.
struct Kernel {
  std::atomic<bool> alive{true};
  std::string name;
  Module* module = nullptr;
  bool parameters_known = false;  // from the image
  std::vector<KernelParameter> parameters;
  double cost_ns = 0;  // per launch and per block, from SIMGPU_KERNEL_US
  double cost_per_block_ns = 0;
  std::mutex mutex;
  std::map<int, int> attributes;  // CUfunction_attribute -> value set by the program
  // The newest matching registration as of generation `body_generation`.
  std::atomic<const KernelBody*> body{nullptr};
  std::atomic<uint64_t> body_generation{0};
  std::atomic<bool> named_as_idle{false};
};

inline Kernel* kernel_of(CUfunction function) {
  return reinterpret_cast<Kernel*>(function);
}
inline Kernel* kernel_of(CUkernel kernel) {
  return reinterpret_cast<Kernel*>(kernel);
}
Kernel* new_kernel(const std::string& name, Module* module);
const KernelBody* body_of(Kernel& kernel);  // null: none registered

// Value of a CUfunction_attribute; CUDA_ERROR_INVALID_VALUE if there is no such attribute.
CUresult kernel_attribute(Kernel& kernel, CUfunction_attribute attribute, int* value);
CUresult set_kernel_attribute(Kernel& kernel, CUfunction_attribute attribute, int value);

// Fills in `work` for a launch.  Arguments are copied here.
CUresult make_kernel_work(const CUDA_KERNEL_NODE_PARAMS& parameters,
                          std::shared_ptr<const Work>& work);
// The same with the attributes of cuLaunchKernelEx; `cooperative` checks that the grid is resident.
CUresult make_kernel_work(const CUDA_KERNEL_NODE_PARAMS& parameters, bool cooperative,
                          std::vector<CUlaunchAttribute> attributes,
                          std::shared_ptr<const Work>& work);
// If `work` is a kernel launch: its parameters.  kernelParams points into `work`.
bool kernel_params_of(const Work& work, CUDA_KERNEL_NODE_PARAMS& parameters);
// The launch attributes that came with cuLaunchKernelEx; none otherwise.
std::vector<CUlaunchAttribute> launch_attributes_of(const Work& work);

// --- occupancy (occupancy.cc)
int blocks_per_multiprocessor(Kernel& kernel, int block_threads, size_t dynamic_shared_bytes);

}  // namespace simgpu
