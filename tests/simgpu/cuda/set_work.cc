#include <algorithm>
#include <cstring>

#include "cuda/copy.h"
#include "cuda/copy_plan.h"

namespace simgpu {
namespace {

void fill(void* to, unsigned value, unsigned element_bytes, size_t count) {
  switch (element_bytes) {
    case 1:
      memset(to, static_cast<int>(value & 0xff), count);
      break;
    case 2:
      std::fill_n(static_cast<uint16_t*>(to), count, static_cast<uint16_t>(value));
      break;
    default:
      std::fill_n(static_cast<uint32_t*>(to), count, value);
  }
}

size_t span_of(const CUDA_MEMSET_NODE_PARAMS& p) {
  return (p.height - 1) * (p.height > 1 ? p.pitch : 0) + p.width * p.elementSize;
}

class SetWork : public Work {
 public:
  explicit SetWork(const CUDA_MEMSET_NODE_PARAMS& parameters) : parameters_(parameters) {}

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMSET; }
  const CUDA_MEMSET_NODE_PARAMS& parameters() const { return parameters_; }

  CUresult run(Run& run) const override {
    const CUDA_MEMSET_NODE_PARAMS& p = parameters_;
    if (p.width == 0 || p.height == 0) {
      return CUDA_SUCCESS;
    }
    Pin pin;
    if (!hold(p.dst, span_of(p), true, pin)) {
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (size_t y = 0; y < p.height; ++y) {
      fill(reinterpret_cast<void*>(p.dst + y * p.pitch), p.value, p.elementSize, p.width);
    }
    finish_transfer(run, p.width * p.elementSize * p.height);
    return CUDA_SUCCESS;
  }

  void describe(simgpuActivity& activity) const override {
    const CUDA_MEMSET_NODE_PARAMS& p = parameters_;
    activity.bytes = p.width * p.elementSize * p.height;
    activity.kind = activity.bytes == 0 ? SIMGPU_NO_ACTIVITY : SIMGPU_SET;
    activity.value = p.value;
  }

 private:
  const CUDA_MEMSET_NODE_PARAMS parameters_;
};

}  // namespace

CUresult make_set_work(const CUDA_MEMSET_NODE_PARAMS& p, std::shared_ptr<const Work>& work) {
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (p.width != 0 && p.height != 0) {
    size_t row_bytes = 0;
    size_t span = 0;
    if (__builtin_mul_overflow(p.width, size_t{p.elementSize}, &row_bytes) ||
        (p.height > 1 && (p.pitch < row_bytes || p.pitch % p.elementSize != 0)) ||
        p.dst % p.elementSize != 0 ||
        __builtin_mul_overflow(p.height - 1, p.height > 1 ? p.pitch : 0, &span)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const Located located = locate(p.dst, span_of(p));
    if (!located.inside || !located.accessible) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  work = std::make_shared<SetWork>(p);
  return CUDA_SUCCESS;
}

bool set_params_of(const Work& work, CUDA_MEMSET_NODE_PARAMS& parameters) {
  const auto* set = dynamic_cast<const SetWork*>(&work);
  if (set) {
    parameters = set->parameters();
  }
  return set != nullptr;
}

}  // namespace simgpu
