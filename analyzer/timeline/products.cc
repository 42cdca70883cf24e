#include "analyzer/timeline/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

}  // namespace traintrace
