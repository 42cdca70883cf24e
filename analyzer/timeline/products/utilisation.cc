#include "analyzer/timeline/products/utilisation.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/timeline/products/matrix_kernels.h"
#include "analyzer/timeline/products/peak_rates.h"
#include "analyzer/timeline/products/products.h"

namespace traintrace {
namespace {

struct Kernel {
  bool multiplies = false;
  Cores cores = Cores::kUnknown;
};

class UtilisationSums {
 public:
  UtilisationSums(const Timeline& timeline, int32_t device) : timeline_(timeline) {
    const DeviceModel* const model = model_of(timeline, device);
    peaks_ = model == nullptr ? nullptr : peaks_of(model->name);
    known_ = std::any_of(
        timeline.work_products.begin(), timeline.work_products.end(),
        [&](const WorkProduct& work) { return timeline.products[work.product].is_plain; });
  }

  void add(const GpuWork& work);
  Utilisation result(int64_t window_ns) const;

 private:
  const Kernel& kernel_of(uint32_t name);
  double peak_for(const MatrixProduct& product, const Kernel& kernel) const;

  const Timeline& timeline_;
  const DeviceRates* peaks_ = nullptr;
  std::unordered_map<uint32_t, Kernel> kernels_;  // by name
  std::unordered_set<uint64_t> counted_;          // a kernel may stand there twice
  bool known_ = false;
  int64_t flops_ = 0;
  double at_peak_ns_ = 0;
  double counted_ns_ = 0, multiplying_ns_ = 0;
};

const Kernel& UtilisationSums::kernel_of(uint32_t name) {
  const auto [kernel, is_new] = kernels_.try_emplace(name);
  if (is_new) {
    const std::string& text = timeline_.names[name];
    kernel->second = {multiplies_matrices(text), matrix_kernel(text).cores};
  }
  return kernel->second;
}

// 0: not known.  What the GPU does at most with floats depends on what it was allowed to use.
double UtilisationSums::peak_for(const MatrixProduct& product, const Kernel& kernel) const {
  if (peaks_ == nullptr || (product.type == ElementType::kSingle && peaks_->tf32 != 0 &&
                            kernel.cores == Cores::kUnknown)) {
    return 0;
  }
  return peak_of(*peaks_, product.type, kernel.cores == Cores::kTensor && peaks_->tf32 != 0);
}

void UtilisationSums::add(const GpuWork& work) {
  if (work.kind != WorkKind::kCompute) {
    return;
  }
  const Kernel& kernel = kernel_of(work.name);
  const MatrixProduct* const product = product_of(timeline_, work.correlation);
  const bool is_plain = product != nullptr && product->is_plain;
  const auto ns = static_cast<double>(work.end_ns - work.start_ns);
  if (is_plain && !counted_.insert(work.correlation).second) {
    return;
  }
  multiplying_ns_ += kernel.multiplies || is_plain ? ns : 0;
  if (!is_plain) {
    return;
  }
  const std::optional<int64_t> flops = flops_of(*product);
  if (!flops || __builtin_add_overflow(flops_, *flops, &flops_)) {
    known_ = false;
    return;
  }
  if (const double peak = peak_for(*product, kernel); peak != 0) {
    at_peak_ns_ += static_cast<double>(*flops) / peak;
    counted_ns_ += ns;
  }
}

Utilisation UtilisationSums::result(int64_t window_ns) const {
  constexpr double kWhole = 1e6;
  Utilisation result;
  if (!known_) {
    return result;
  }
  result.gemm_flops = flops_;
  const double share = kWhole * at_peak_ns_ / static_cast<double>(std::max<int64_t>(window_ns, 1));
  // More than it can do: then times or shapes are not what they seem.
  if (peaks_ != nullptr && window_ns > 0 && counted_ns_ >= kUtilisationCounted * multiplying_ns_ &&
      share <= kUtilisationMost * kWhole) {
    result.mfu_percent_e4 = std::llround(share);
  }
  return result;
}

}  // namespace

Utilisation utilisation_of(const Timeline& timeline, int32_t device, std::span<const GpuWork> work,
                           int64_t window_ns) {
  UtilisationSums sums(timeline, device);
  for (const GpuWork& each : work) {
    sums.add(each);
  }
  return sums.result(window_ns);
}

}  // namespace traintrace
