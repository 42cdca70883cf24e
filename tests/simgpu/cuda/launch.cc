#include "cuda/launch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shared_mutex>

#include "common/entry.h"
#include "cuda/device.h"

namespace simgpu {
namespace {

struct Cost {
  std::string pattern;
  double launch_ns = 0;
  double block_ns = 0;
};

// SIMGPU_KERNEL_US=5 or SIMGPU_KERNEL_US=gemm*=100+0.02,*=5: microseconds per launch, plus per
// block.  The first pattern that matches counts.
std::vector<Cost> read_costs() {
  std::vector<Cost> costs;
  const char* text = getenv("SIMGPU_KERNEL_US");
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string part = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const size_t equals = part.find('=');
    Cost cost;
    cost.pattern = equals == std::string::npos ? "*" : part.substr(0, equals);
    char* end = nullptr;
    const char* number = part.c_str() + (equals == std::string::npos ? 0 : equals + 1);
    cost.launch_ns = strtod(number, &end) * 1000;
    cost.block_ns = *end == '+' ? strtod(end + 1, &end) * 1000 : 0;
    if (end == number || *end || cost.launch_ns < 0 || cost.block_ns < 0) {
      fprintf(stderr, "simgpu: SIMGPU_KERNEL_US: '%s' is not [NAME=]US[+US_PER_BLOCK]\n",
              part.c_str());
      continue;
    }
    costs.push_back(cost);
  }
  return costs;
}

// True if `name` is the mangled name of the C++ function `identifier`, whatever its parameters.
bool mangles(const std::string& identifier, const std::string& name) {
  const std::string prefix = "_Z" + std::to_string(identifier.size()) + identifier;
  return name.starts_with(prefix);
}

bool names_kernel(const std::string& pattern, const std::string& name) {
  return glob_match(pattern.c_str(), name.c_str()) || mangles(pattern, name);
}

struct Bodies {
  std::shared_mutex mutex;
  std::vector<const KernelBody*> all;  // newest last
  std::atomic<uint64_t> generation{1};
};

Bodies& bodies() {
  static Bodies& value = *new Bodies;
  return value;
}

class KernelWork final : public Work {
 public:
  KernelWork(Kernel& kernel, const CUDA_KERNEL_NODE_PARAMS& parameters, int device)
      : kernel_(kernel), body_(body_of(kernel)), parameters_(parameters), device_(device) {
    parameters_.extra = nullptr;
    parameters_.kernelParams = nullptr;
    const double blocks = 1.0 * parameters.gridDimX * parameters.gridDimY * parameters.gridDimZ;
    cost_ns_ = std::llround(kernel.cost_ns + kernel.cost_per_block_ns * blocks);
  }

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_KERNEL; }

  CUresult run(Run& run) const override {
    int result = CUDA_SUCCESS;
    if (body_) {
      const CUDA_KERNEL_NODE_PARAMS& p = parameters_;
      static_assert(sizeof(std::atomic<int>) == sizeof(int));
      long long end_ns = 0;
      const simgpuLaunch launch = {kernel_.name.c_str(),
                                   {p.gridDimX, p.gridDimY, p.gridDimZ},
                                   {p.blockDimX, p.blockDimY, p.blockDimZ},
                                   p.sharedMemBytes,
                                   device_,
                                   reinterpret_cast<const volatile int*>(&run.fault.cancelled),
                                   run.start_ns,
                                   &end_ns};
      result = body_->run(pointers_.data(), &launch, body_->user);
      run.ends_now();
      run.end_ns = end_ns != 0 ? end_ns : run.end_ns;
    }
    run.end_ns = std::max(run.end_ns, run.start_ns + cost_ns_);
    return static_cast<CUresult>(result);
  }

  void describe(simgpuActivity& activity) const override {
    const CUDA_KERNEL_NODE_PARAMS& p = parameters_;
    activity.kind = SIMGPU_KERNEL;
    activity.name = kernel_.name.c_str();
    const unsigned grid[] = {p.gridDimX, p.gridDimY, p.gridDimZ};
    const unsigned block[] = {p.blockDimX, p.blockDimY, p.blockDimZ};
    std::copy(grid, grid + 3, activity.grid);
    std::copy(block, block + 3, activity.block);
    activity.shared_bytes = p.sharedMemBytes;
  }

  // Offsets and sizes of the parameters: the image's, or natural alignment of the registered sizes.
  std::vector<KernelParameter> layout() const {
    if (kernel_.parameters_known || !body_) {
      return kernel_.parameters;
    }
    std::vector<KernelParameter> out;
    size_t offset = 0;
    for (const size_t bytes : body_->parameter_bytes) {
      const size_t alignment = std::min<size_t>(bytes & (~bytes + 1), 16);
      offset = alignment ? (offset + alignment - 1) / alignment * alignment : offset;
      out.push_back({offset, bytes});
      offset += bytes;
    }
    return out;
  }

  void copy_arguments(void* const* arguments) {
    const std::vector<KernelParameter> parameters = layout();
    if (parameters.empty()) {
      return;
    }
    reserve(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      std::memcpy(pointers_[i], arguments[i], parameters[i].bytes);
    }
  }

  // The form where the caller has laid the parameters out himself.
  CUresult copy_buffer(const void* buffer, size_t bytes) {
    const std::vector<KernelParameter> parameters = layout();
    if (parameters.empty()) {
      return CUDA_SUCCESS;
    }
    if (bytes < parameters.back().offset + parameters.back().bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    reserve(parameters);
    std::memcpy(values_.get(), buffer, parameters.back().offset + parameters.back().bytes);
    return CUDA_SUCCESS;
  }

  CUDA_KERNEL_NODE_PARAMS parameters() const {
    CUDA_KERNEL_NODE_PARAMS out = parameters_;
    out.kernelParams = pointers_.empty() ? nullptr : const_cast<void**>(pointers_.data());
    return out;
  }

  std::vector<CUlaunchAttribute> attributes;

 private:
  void reserve(const std::vector<KernelParameter>& parameters) {
    const size_t bytes = parameters.back().offset + parameters.back().bytes;
    values_ = std::make_unique<std::max_align_t[]>(bytes / sizeof(std::max_align_t) + 1);
    auto* base = reinterpret_cast<char*>(values_.get());
    for (const KernelParameter& parameter : parameters) {
      pointers_.push_back(base + parameter.offset);
    }
  }

  Kernel& kernel_;
  const KernelBody* body_;
  CUDA_KERNEL_NODE_PARAMS parameters_;
  int device_;
  int64_t cost_ns_ = 0;
  std::unique_ptr<std::max_align_t[]> values_;
  std::vector<void*> pointers_;
};

bool valid_shape(const CUDA_KERNEL_NODE_PARAMS& p) {
  const uint64_t threads = uint64_t{p.blockDimX} * p.blockDimY * p.blockDimZ;
  return p.gridDimX && p.gridDimY && p.gridDimZ && threads && p.gridDimX <= kMaxGridX &&
         p.gridDimY <= kMaxGridYZ && p.gridDimZ <= kMaxGridYZ && p.blockDimX <= kMaxBlockThreads &&
         p.blockDimY <= kMaxBlockThreads && p.blockDimZ <= kMaxBlockZ &&
         threads <= kMaxBlockThreads;
}

CUresult check_launch(Kernel& kernel, const CUDA_KERNEL_NODE_PARAMS& p, bool cooperative) {
  int shared_limit = 0;
  kernel_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &shared_limit);
  if (!valid_shape(p) || p.sharedMemBytes > static_cast<unsigned>(shared_limit)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (cooperative) {
    const int threads = static_cast<int>(p.blockDimX * p.blockDimY * p.blockDimZ);
    const uint64_t resident =
        uint64_t(blocks_per_multiprocessor(kernel, threads, p.sharedMemBytes)) * kMultiprocessors;
    if (uint64_t{p.gridDimX} * p.gridDimY * p.gridDimZ > resident) {
      return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
  }
  return CUDA_SUCCESS;
}

// The {POINTER, p, SIZE, p, END} list of `extra`.
CUresult copy_extra(void** extra, KernelWork& work) {
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[1];
    } else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      bytes = *static_cast<const size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return buffer ? work.copy_buffer(buffer, bytes) : CUDA_SUCCESS;
}

// Where bodies were given from outside, a kernel without one leaves stale data behind that somebody
// counts on.
void name_idle(Kernel& kernel) {
  static const bool wanted = getenv("SIMGPU_KERNELS") != nullptr;
  if (wanted && !kernel.named_as_idle.exchange(true)) {
    fprintf(stderr, "simgpu: has no body and does nothing: kernel %s\n", kernel.name.c_str());
  }
}

}  // namespace

Kernel* new_kernel(const std::string& name, Module* module) {
  static const std::vector<Cost>& costs = *new std::vector<Cost>(read_costs());
  auto* kernel = new Kernel;
  kernel->name = name;
  kernel->module = module;
  for (const Cost& cost : costs) {
    if (names_kernel(cost.pattern, name)) {
      kernel->cost_ns = cost.launch_ns;
      kernel->cost_per_block_ns = cost.block_ns;
      break;
    }
  }
  return kernel;
}

const KernelBody* body_of(Kernel& kernel) {
  const uint64_t generation = bodies().generation.load(std::memory_order_acquire);
  if (kernel.body_generation.load(std::memory_order_acquire) == generation) {
    return kernel.body.load(std::memory_order_acquire);
  }
  const std::shared_lock lock(bodies().mutex);
  const auto& all = bodies().all;
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const KernelBody* body) {
    return names_kernel(body->pattern, kernel.name);
  });
  const KernelBody* body = found == all.rend() ? nullptr : *found;
  kernel.body.store(body, std::memory_order_release);
  kernel.body_generation.store(generation, std::memory_order_release);
  if (body == nullptr) {
    name_idle(kernel);
  }
  return body;
}

CUresult make_kernel_work(const CUDA_KERNEL_NODE_PARAMS& parameters, bool cooperative,
                          std::vector<CUlaunchAttribute> attributes,
                          std::shared_ptr<const Work>& work) {
  Kernel* kernel = parameters.func ? kernel_of(parameters.func) : kernel_of(parameters.kern);
  if (!kernel || !kernel->alive.load(std::memory_order_relaxed)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const CUresult result = check_launch(*kernel, parameters, cooperative)) {
    return result;
  }
  if (parameters.kernelParams && parameters.extra) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Context* context = current_context();
  auto made = std::make_shared<KernelWork>(*kernel, parameters, context ? context->device : 0);
  if (parameters.kernelParams) {
    made->copy_arguments(parameters.kernelParams);
  } else if (parameters.extra) {
    if (const CUresult result = copy_extra(parameters.extra, *made)) {
      return result;
    }
  }
  made->attributes = std::move(attributes);
  work = std::move(made);
  return CUDA_SUCCESS;
}

CUresult make_kernel_work(const CUDA_KERNEL_NODE_PARAMS& parameters,
                          std::shared_ptr<const Work>& work) {
  return make_kernel_work(parameters, false, {}, work);
}

bool kernel_params_of(const Work& work, CUDA_KERNEL_NODE_PARAMS& parameters) {
  const auto* kernel = dynamic_cast<const KernelWork*>(&work);
  if (kernel) {
    parameters = kernel->parameters();
  }
  return kernel != nullptr;
}

std::vector<CUlaunchAttribute> launch_attributes_of(const Work& work) {
  const auto* kernel = dynamic_cast<const KernelWork*>(&work);
  return kernel ? kernel->attributes : std::vector<CUlaunchAttribute>{};
}

}  // namespace simgpu

extern "C" void simgpuRegisterKernel(const char* name, simgpuKernelBody run, void* user,
                                     size_t parameter_count, const size_t* parameter_bytes) {
  using namespace simgpu;
  auto* body = new KernelBody;  // launches in flight may refer to it at any later time
  body->pattern = name;
  body->run = run;
  body->user = user;
  body->parameter_bytes.assign(parameter_bytes, parameter_bytes + parameter_count);
  const std::unique_lock lock(bodies().mutex);
  bodies().all.push_back(body);
  bodies().generation.fetch_add(1, std::memory_order_release);
}
