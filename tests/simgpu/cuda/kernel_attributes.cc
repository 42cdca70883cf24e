#include "cuda/device.h"
#include "cuda/launch.h"

namespace simgpu {
namespace {

// What a function has if the program sets nothing; -1: no such attribute.
int default_attribute(CUfunction_attribute attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return kMaxBlockThreads;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return kRegistersPerThread;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return 10 * kComputeMajor + kComputeMinor;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return kSharedPerBlock;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return -1;  // its default; see kernel_attribute
    default:
      return attribute < CU_FUNC_ATTRIBUTE_MAX ? 0 : -1;
  }
}

bool settable(CUfunction_attribute attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult kernel_attribute(Kernel& kernel, CUfunction_attribute attribute, int* value) {
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(kernel.mutex);
  const auto set = kernel.attributes.find(attribute);
  *value = set != kernel.attributes.end() ? set->second : default_attribute(attribute);
  return CUDA_SUCCESS;
}

CUresult set_kernel_attribute(Kernel& kernel, CUfunction_attribute attribute, int value) {
  const bool shared = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  if (!settable(attribute) || (shared && (value < 0 || value > kSharedPerBlockOptin))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(kernel.mutex);
  kernel.attributes[attribute] = value;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
