// Products of matrices that leave the GPU's tensor cores unused, or feed them in small pieces.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/products/matrix_kernels.h"
#include "analyzer/timeline/products/peak_rates.h"
#include "analyzer/timeline/products/products.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

constexpr size_t kShownKernels = 3;
constexpr double kMostNs = 9e18;

enum class Path : uint8_t { kNone, kSingle, kHalf, kUnaligned };

struct PathText {
  Path path;
  const char* what;
  const char* advice;
};
constexpr PathText kPaths[] = {
    {Path::kSingle, "multiply floats without tensor cores",
     "if the precision of TF32 suffices: torch.set_float32_matmul_precision('high'); if that of "
     "bfloat16 does, autocast. If full precision is wanted, this is what it costs"},
    {Path::kHalf, "multiply half-precision numbers without tensor cores",
     "make all sizes multiples of 8 and keep views aligned to 16 bytes; look for settings that "
     "forbid reduced precision"},
    {Path::kUnaligned, "read operands in pieces of 4 bytes or fewer",
     "pad the sizes (features, vocabulary) to multiples of 8, and begin views at multiples of 16 "
     "bytes"},
};

// Sums over files that may say anything are no integers, which overflow.
struct SameKernel {
  size_t count = 0;
  double ns = 0;
  const GpuWork* longest = nullptr;
};

struct SlowWork {
  int64_t exposed_ns = 0;
  double known_ns = 0, all_ns = 0;  // of kernels whose shape is known, of all
  size_t count = 0;
  std::vector<IdleGap> each;
  std::map<uint32_t, SameKernel> kernels;  // by name
};

// One GPU, by what is known of it.
class Judge {
 public:
  Judge(const Timeline& timeline, int32_t device)
      : timeline_(timeline), model_(model_of(timeline, device)) {
    peaks_ = model_ == nullptr ? nullptr : peaks_of(model_->name);
    has_tensor_cores_ =
        model_ != nullptr && model_->major >= 7 && model_->name.find("GTX 16") == std::string::npos;
    for (const std::string& name : timeline.names) {
      kernels_.push_back(has_tensor_cores_ ? matrix_kernel(name) : MatrixKernel());
    }
  }

  Path path_of(const GpuWork& work) const {
    const MatrixKernel& kernel = kernels_[work.name];
    if (kernel.cores == Cores::kUnknown || work.kind != WorkKind::kCompute ||
        work.end_ns - work.start_ns < kSlowKernelNs) {
      return Path::kNone;
    }
    const MatrixProduct* const product = product_of(timeline_, work.correlation);
    const bool known = product != nullptr && product->type != ElementType::kUnknown;
    const ElementType type = known ? product->type : kernel.type;
    const Path path = kernel.cores == Cores::kCuda ? unused(type) : unaligned(kernel, type);
    const bool judged =
        product == nullptr || (product->is_plain && is_far_from_floor(*product, work));
    return judged ? path : Path::kNone;
  }

  // Whether it is known that more than moving the operands takes the time.
  bool is_known(const GpuWork& work) const {
    const MatrixProduct* const product = product_of(timeline_, work.correlation);
    return product != nullptr && flops_of(*product) && peaks_ != nullptr;
  }

 private:
  Path unused(ElementType type) const {
    switch (type) {
      case ElementType::kSingle:
        return peaks_ != nullptr && peaks_->tf32 >= kTf32Faster * peaks_->fp32 ? Path::kSingle
                                                                               : Path::kNone;
      case ElementType::kHalf:
        return Path::kHalf;
      case ElementType::kBfloat16:
        return model_->major >= 8 ? Path::kHalf : Path::kNone;
      default:
        return Path::kNone;
    }
  }

  static Path unaligned(const MatrixKernel& kernel, ElementType type) {
    const bool may = type == ElementType::kSingle || type == ElementType::kHalf ||
                     type == ElementType::kBfloat16;
    return may && kernel.alignment != 0 && kernel.alignment * bytes_of(type) <= kUnalignedBytes
               ? Path::kUnaligned
               : Path::kNone;
  }

  bool is_far_from_floor(const MatrixProduct& product, const GpuWork& work) const {
    const std::optional<int64_t> flops = flops_of(product);
    const double peak = peaks_ == nullptr ? 0 : peak_of(*peaks_, product.type, true);
    if (!flops || peak == 0) {
      return true;
    }
    const double floor_ns =
        std::max(static_cast<double>(*flops) / peak, bytes_of(product) / peaks_->memory);
    return static_cast<double>(work.end_ns - work.start_ns) >= kBeyondFloor * floor_ns;
  }

  const Timeline& timeline_;
  const DeviceModel* model_;
  const DeviceRates* peaks_ = nullptr;
  bool has_tensor_cores_ = false;
  std::vector<MatrixKernel> kernels_;  // by name
};

void add(const GpuWork& work, bool known, SlowWork& slow) {
  const int64_t ns = work.end_ns - work.start_ns;
  slow.all_ns += static_cast<double>(ns);
  slow.known_ns += known ? static_cast<double>(ns) : 0;
  ++slow.count;
  slow.each.push_back({ns, work.end_ns});
  SameKernel& kernel = slow.kernels[work.name];
  ++kernel.count;
  kernel.ns += static_cast<double>(ns);
  if (kernel.longest == nullptr || ns > kernel.longest->end_ns - kernel.longest->start_ns) {
    kernel.longest = &work;
  }
}

// While nothing else ran on the GPU: what is hidden behind other work costs nothing.
SlowWork slow_work(const Profile& profile, const DeviceProfile& device, Path path) {
  const Timeline& timeline = profile.timelines[device.timeline];
  const Judge judge(timeline, device.device);
  SlowWork slow;
  std::vector<Span> spans;
  std::vector<Span> beside;
  for (const GpuWork& work : timeline.work) {
    if (work.device != device.device) {
      continue;
    }
    const bool is_slow = judge.path_of(work) == path;
    (is_slow ? spans : beside).push_back({work.start_ns, work.end_ns});
    if (is_slow) {
      add(work, judge.is_known(work), slow);
    }
  }
  const Spans all = united(std::move(spans));
  slow.exposed_ns = length_ns(all) - common_ns(all, united(std::move(beside)));
  return slow;
}

const HostCall* launch_of(const Timeline& timeline, const GpuWork& work) {
  const auto call =
      std::find_if(timeline.calls.begin(), timeline.calls.end(), [&](const HostCall& each) {
        return each.correlation == work.correlation && work.correlation != 0;
      });
  return call == timeline.calls.end() ? nullptr : &*call;
}

void add_kernels(const Profile& profile, const DeviceProfile& device, const SlowWork& slow,
                 Finding& finding) {
  const Timeline& timeline = profile.timelines[device.timeline];
  std::vector<const SameKernel*> kernels;
  for (const auto& [name, kernel] : slow.kernels) {
    kernels.push_back(&kernel);
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const SameKernel* a, const SameKernel* b) { return a->ns > b->ns; });
  kernels.resize(std::min(kernels.size(), kShownKernels));
  for (const SameKernel* kernel : kernels) {
    const GpuWork& work = *kernel->longest;
    const MatrixProduct* const product = product_of(timeline, work.correlation);
    const bool has_shape = product != nullptr && product->batch != 0;
    finding.evidence.push_back(
        fmt::format("{}: {} times, {}{}", timeline.names[work.name], kernel->count,
                    share_text(device, static_cast<int64_t>(std::min(kernel->ns, kMostNs))),
                    has_shape ? ", as " + shape_text(*product) : ""));
    const HostCall* const launch = launch_of(timeline, work);
    if (launch != nullptr && launch->site != kNoName) {
      finding.where.push_back(
          place_of(device.rank, {IdleCause::kHostBound, "", timeline.names[launch->site]}));
    }
    if (has_shape && kernel == kernels.front()) {
      for (const auto& [key, value] : {std::pair("batch", product->batch),
                                       {"m", product->m},
                                       {"n", product->n},
                                       {"k", product->k}}) {
        finding.values.emplace_back(key, value);
      }
    }
  }
}

}  // namespace

std::vector<Finding> find_slow_kernel_path(const Profile& profile) {
  std::vector<Finding> findings;
  for (const PathText& text : kPaths) {
    std::map<const DeviceProfile*, SlowWork> slow;
    const std::vector<LossOn> losses =
        losses_of(profile, kWarnShare, [&](const DeviceProfile& device) {
          const SlowWork& work = slow[&device] = slow_work(profile, device, text.path);
          return Habit(device, work.each).sum_ns() > 0 ? work.exposed_ns : 0;
        });
    if (losses.empty()) {
      continue;
    }
    const DeviceProfile& worst = *losses.front().device;
    const SlowWork& work = slow[&worst];
    Finding& finding = findings.emplace_back(loss_finding("latency.slow-kernel-path", losses));
    const bool one = losses.size() == 1;
    finding.title = fmt::format("the GPU{} of {} spend{} {}{} in kernels that {}", one ? "" : "s",
                                ranks_text(finding.culprits), one ? "s" : "", one ? "" : "up to ",
                                share_text(worst, work.exposed_ns), text.what);
    finding.culprits.clear();
    finding.certainty = work.known_ns > work.all_ns / 2 ? Certainty::kLikely : Certainty::kPossible;
    finding.values = {{"slow_ns", work.exposed_ns},
                      {"slow_percent", percent_of(worst, work.exposed_ns)},
                      {"kernel_count", static_cast<int64_t>(work.count)}};
    add_kernels(profile, worst, work, finding);
    if (finding.certainty == Certainty::kPossible) {
      finding.evidence.emplace_back(
          "of most of them the shape is not known: what moves much and computes little is as fast "
          "as it can be (a profile has shapes with record_shapes=True)");
    }
    finding.advice = text.advice;
  }
  return findings;
}

}  // namespace traintrace
