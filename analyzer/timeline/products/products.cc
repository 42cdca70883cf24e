#include "analyzer/timeline/products/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "analyzer/timeline/products/matrix_kernels.h"

namespace traintrace {
namespace {

struct TypeText {
  std::string_view name;
  int64_t bytes;
};

// By ElementType.
constexpr std::array<TypeText, 7> kTypes = {{{"unknown", 0},
                                             {"double", 8},
                                             {"float", 4},
                                             {"half", 2},
                                             {"bfloat16", 2},
                                             {"float8", 1},
                                             {"int8", 1}}};

}  // namespace

const MatrixProduct* product_of(const Timeline& timeline, uint64_t correlation) {
  const auto found = std::lower_bound(
      timeline.work_products.begin(), timeline.work_products.end(), correlation,
      [](const WorkProduct& each, uint64_t value) { return each.correlation < value; });
  return found != timeline.work_products.end() && found->correlation == correlation
             ? &timeline.products[found->product]
             : nullptr;
}

const DeviceModel* model_of(const Timeline& timeline, int32_t device) {
  const auto found = std::find_if(timeline.models.begin(), timeline.models.end(),
                                  [&](const DeviceModel& each) { return each.device == device; });
  return found == timeline.models.end() ? nullptr : &*found;
}

std::optional<int64_t> flops_of(const MatrixProduct& product) {
  int64_t flops = 2;
  for (const int64_t factor : {product.batch, product.m, product.n, product.k}) {
    if (__builtin_mul_overflow(flops, factor, &flops)) {
      return std::nullopt;
    }
  }
  return product.batch == 0 || product.type == ElementType::kUnknown ? std::nullopt
                                                                     : std::optional(flops);
}

double bytes_of(const MatrixProduct& product) {
  const auto m = static_cast<double>(product.m);
  const auto n = static_cast<double>(product.n);
  const auto k = static_cast<double>(product.k);
  return static_cast<double>(product.batch) * (m * k + k * n + m * n) *
         static_cast<double>(bytes_of(product.type));
}

std::string shape_text(const MatrixProduct& product) {
  return fmt::format("{}[{}, {}] x [{}, {}] of {}",
                     product.batch == 1 ? "" : std::to_string(product.batch) + " x ", product.m,
                     product.k, product.k, product.n, name_of(product.type));
}

std::string_view name_of(ElementType type) {
  return kTypes[static_cast<size_t>(type)].name;
}

ElementType type_of_name(std::string_view name) {
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [&](const TypeText& each) { return each.name == name; });
  return found == kTypes.end() ? ElementType::kUnknown
                               : static_cast<ElementType>(found - kTypes.begin());
}

int64_t bytes_of(ElementType type) {
  return kTypes[static_cast<size_t>(type)].bytes;
}

uint32_t ProductTable::index_of(const MatrixProduct& product, Timeline& timeline) {
  const auto [known, is_new] =
      known_.try_emplace(product, static_cast<uint32_t>(timeline.products.size()));
  if (is_new) {
    timeline.products.push_back(product);
  }
  return known->second;
}

void add_main_work(std::span<const Multiplication> multiplications,
                   std::vector<LaunchedFor> launched, Timeline& timeline) {
  constexpr auto kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> mains(multiplications.size(), kNone);  // in timeline.work
  const auto rank_of = [&](uint32_t index) {
    const GpuWork& work = timeline.work[index];
    return std::pair(multiplies_matrices(timeline.names[work.name]), work.end_ns - work.start_ns);
  };
  std::sort(launched.begin(), launched.end(), [](const LaunchedFor& a, const LaunchedFor& b) {
    return std::pair(a.correlation, a.multiplication) < std::pair(b.correlation, b.multiplication);
  });
  for (uint32_t i = 0; i < timeline.work.size(); ++i) {
    const GpuWork& work = timeline.work[i];
    const auto found = std::lower_bound(
        launched.begin(), launched.end(), work.correlation,
        [](const LaunchedFor& each, uint64_t value) { return each.correlation < value; });
    if (work.kind != WorkKind::kCompute || work.correlation == 0 || found == launched.end() ||
        found->correlation != work.correlation) {
      continue;
    }
    uint32_t& main = mains[found->multiplication];
    if (main == kNone || rank_of(i) > rank_of(main)) {
      main = i;
    }
  }
  launched = {};
  for (size_t i = 0; i < mains.size(); ++i) {
    // What has none ran on the CPU, was captured, or is not in the trace.
    if (mains[i] != kNone && multiplications[i].is_counted) {
      timeline.work_products.push_back(
          {timeline.work[mains[i]].correlation, multiplications[i].product});
    }
  }
  sort_products(timeline);
}

void sort_products(Timeline& timeline) {
  std::stable_sort(
      timeline.work_products.begin(), timeline.work_products.end(),
      [](const WorkProduct& a, const WorkProduct& b) { return a.correlation < b.correlation; });
}

}  // namespace traintrace
