#include "analyzer/timeline/products/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
      timeline.products.begin(), timeline.products.end(), correlation,
      [](const MatrixProduct& each, uint64_t value) { return each.correlation < value; });
  return found != timeline.products.end() && found->correlation == correlation ? &*found : nullptr;
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

std::vector<uint64_t> main_work(const Timeline& timeline, std::vector<LaunchedFor> launched,
                                size_t count) {
  struct Main {
    uint64_t correlation = 0;
    bool multiplies = false;
    int64_t ns = -1;
  };
  std::vector<Main> mains(count);
  std::sort(launched.begin(), launched.end(), [](const LaunchedFor& a, const LaunchedFor& b) {
    return std::pair(a.correlation, a.product) < std::pair(b.correlation, b.product);
  });
  for (const GpuWork& work : timeline.work) {
    const auto found = std::lower_bound(
        launched.begin(), launched.end(), work.correlation,
        [](const LaunchedFor& each, uint64_t value) { return each.correlation < value; });
    if (work.kind != WorkKind::kCompute || work.correlation == 0 || found == launched.end() ||
        found->correlation != work.correlation) {
      continue;
    }
    Main& main = mains[found->product];
    const bool multiplies = multiplies_matrices(timeline.names[work.name]);
    const int64_t ns = work.end_ns - work.start_ns;
    if (std::pair(multiplies, ns) > std::pair(main.multiplies, main.ns)) {
      main = {work.correlation, multiplies, ns};
    }
  }
  std::vector<uint64_t> correlations;
  correlations.reserve(count);
  for (const Main& main : mains) {
    correlations.push_back(main.correlation);
  }
  return correlations;
}

void sort_products(Timeline& timeline) {
  std::stable_sort(
      timeline.products.begin(), timeline.products.end(),
      [](const MatrixProduct& a, const MatrixProduct& b) { return a.correlation < b.correlation; });
}

}  // namespace traintrace
