#include "analyzer/importers/kineto/kineto_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace traintrace::kineto {
namespace {

// Products as such, and which of their inputs are the two operands.  Others (linear, matmul,
// einsum) call one of these.
struct Plain {
  std::string_view name;
  size_t first;
};
constexpr Plain kPlain[] = {{"aten::mm", 0},       {"aten::addmm", 1},
                            {"aten::addmm_", 1},   {"aten::_addmm_activation", 1},
                            {"aten::bmm", 0},      {"aten::baddbmm", 1},
                            {"aten::baddbmm_", 1}, {"aten::_scaled_mm", 0},
                            {"aten::_int_mm", 0}};
// What multiplies matrices as a part of something else.
constexpr std::string_view kOthers[] = {"conv", "rnn", "lstm", "linalg", "cdist"};

const Plain* plain_of(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kPlain), std::end(kPlain),
                                         [&](const Plain& plain) { return plain.name == name; });
  return found == std::end(kPlain) ? nullptr : found;
}

// The element of an array as it is written, brackets and all; empty: there is none.
std::string_view element(std::string_view array, size_t index) {
  int depth = 0;
  size_t begin = 1;
  for (size_t at = 0; at < array.size(); ++at) {
    depth += array[at] == '[' ? 1 : array[at] == ']' ? -1 : 0;
    const bool ends = (array[at] == ',' && depth == 1) || (array[at] == ']' && depth == 0);
    if (ends && index-- == 0) {
      return array.substr(begin, at - begin);
    }
    begin = ends ? at + 1 : begin;
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == text.npos ? std::string_view()
                            : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Two or three sizes, the batch first; 1 where there is none.
std::optional<std::array<int64_t, 3>> sizes_of(std::string_view dims) {
  std::array<int64_t, 3> sizes{1, 0, 0};
  dims = trimmed(dims);
  const bool batched = !element(dims, 2).empty();
  if (!element(dims, 3).empty()) {
    return std::nullopt;
  }
  for (size_t i = batched ? 0 : 1; i < sizes.size(); ++i) {
    const auto size = number_of<int64_t>(trimmed(element(dims, batched ? i : i - 1)));
    if (!size || *size < 0) {
      return std::nullopt;
    }
    sizes[i] = *size;
  }
  return sizes;
}

ElementType type_of(std::string_view text) {
  struct Name {
    std::string_view text;
    ElementType type;
  };
  constexpr Name kNames[] = {{"\"float\"", ElementType::kSingle},
                             {"\"double\"", ElementType::kDouble},
                             {"\"c10::Half\"", ElementType::kHalf},
                             {"\"c10::BFloat16\"", ElementType::kBfloat16},
                             {"\"signed char\"", ElementType::kInt8}};
  text = trimmed(text);
  if (text.starts_with("\"c10::Float8_")) {
    return ElementType::kFp8;
  }
  const auto* const found = std::find_if(std::begin(kNames), std::end(kNames),
                                         [&](const Name& name) { return name.text == text; });
  return found == std::end(kNames) ? ElementType::kUnknown : found->type;
}

MatrixProduct product_by_text(const Event& event, size_t first) {
  MatrixProduct product;
  const ElementType type = type_of(element(event.types, first));
  product.type = type == type_of(element(event.types, first + 1)) ? type : ElementType::kUnknown;
  const auto a = sizes_of(element(event.dims, first));
  const auto b = sizes_of(element(event.dims, first + 1));
  // A batch of 0 stands for a shape that is not known; it computes nothing anyway.
  if (a && b && (*a)[0] == (*b)[0] && (*a)[2] == (*b)[1]) {
    product.batch = (*a)[0];
    product.m = (*a)[1];
    product.k = (*a)[2];
    product.n = (*b)[2];
  }
  return product;
}

}  // namespace

bool Products::wants(std::string_view name) {
  return plain_of(name) != nullptr ||
         std::any_of(std::begin(kOthers), std::end(kOthers),
                     [&](std::string_view word) { return name.find(word) != name.npos; });
}

// Jobs call the same few operators with the same few shapes again and again.
uint32_t Products::product_of(const Event& event, Timeline& timeline) {
  constexpr char kBetween = '\n';
  text_.assign(event.name).append(1, kBetween).append(event.dims);
  text_.append(1, kBetween).append(event.types);
  if (const auto known = by_text_.find(text_); known != by_text_.end()) {
    return known->second;
  }
  const Plain* const plain = plain_of(event.name);
  MatrixProduct product = plain == nullptr ? MatrixProduct() : product_by_text(event, plain->first);
  product.is_plain = plain != nullptr;
  const uint32_t index = table_.index_of(product, timeline);
  by_text_.emplace(text_, index);
  return index;
}

std::string told_product(const MatrixProduct& product) {
  if (!product.is_plain) {
    return "part";
  }
  return product.batch == 0 ? std::string(name_of(product.type))
                            : fmt::format("{} {} {} {} {}", name_of(product.type), product.batch,
                                          product.m, product.n, product.k);
}

void Products::add_told(std::string_view told, uint64_t correlation, Timeline& timeline) {
  MatrixProduct product;
  const size_t end = told.find(' ');
  product.type = type_of_name(told.substr(0, end));
  product.is_plain = told != "part";
  std::array<int64_t, 4> numbers = {-1, -1, -1, -1};
  for (size_t i = 0, at = end; at != told.npos && i < numbers.size(); ++i) {
    const size_t next = told.find(' ', at + 1);
    numbers[i] = number_of<int64_t>(told.substr(at + 1, next - at - 1)).value_or(-1);
    at = next;
  }
  if (std::all_of(numbers.begin(), numbers.end(), [](int64_t each) { return each >= 0; })) {
    product.batch = numbers[0];
    product.m = numbers[1];
    product.n = numbers[2];
    product.k = numbers[3];
  }
  timeline.work_products.push_back({correlation, table_.index_of(product, timeline)});
}

}  // namespace traintrace::kineto
