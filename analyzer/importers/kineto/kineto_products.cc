#include "analyzer/importers/kineto/kineto_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "analyzer/timeline/products/products.h"

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

MatrixProduct product_of(const Event& event, size_t first) {
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

void Products::add(const Event& event, const Span& span, uint32_t thread) {
  const Plain* const plain = plain_of(event.name);
  MatrixProduct added = plain == nullptr ? MatrixProduct() : product_of(event, plain->first);
  added.is_plain = plain != nullptr;
  ranges_.push_back({span, thread, static_cast<uint32_t>(operators_.size())});
  operators_.push_back(added);
}

// An operator may call itself again with other types (autocast), or another one.  The innermost
// is what is computed; what the outer one launches by itself only prepares it.
std::vector<bool> Products::with_inner(size_t threads) const {
  std::vector<bool> found(operators_.size());
  OpenRanges open(threads);
  for (const Range& range : ranges_) {
    std::vector<const Range*>& stack = open.at(range.thread, range.span.begin_ns);
    if (!stack.empty() && operators_[range.what].is_plain) {
      found[stack.back()->what] = true;
    }
    stack.push_back(&range);
  }
  return found;
}

void Products::finish(Timeline& timeline) {
  // Our own exports say of each kernel what it computes; their operators have no shapes.
  if (!timeline.products.empty()) {
    ranges_ = {};
    operators_ = {};
    sort_products(timeline);
    return;
  }
  sort_ranges(ranges_);
  const std::vector<bool> outer = with_inner(timeline.threads.size());
  std::vector<LaunchedFor> launched;
  visit_innermost(ranges_, timeline.threads.size(), timeline.calls,
                  [&](const HostCall& call, const Range* range) {
                    if (range != nullptr && call.correlation != 0) {
                      launched.push_back({call.correlation, range->what});
                    }
                  });
  ranges_ = {};
  const std::vector<uint64_t> main = main_work(timeline, std::move(launched), operators_.size());
  size_t kept = 0;
  for (size_t i = 0; i < operators_.size(); ++i) {
    // What has none ran on the CPU, was captured, or is not in the trace.
    if (main[i] != 0 && !(operators_[i].is_plain && outer[i])) {
      operators_[kept] = operators_[i];
      operators_[kept++].correlation = main[i];
    }
  }
  const bool few = kept < operators_.size() / 2;
  operators_.resize(kept);
  if (few) {
    operators_.shrink_to_fit();
  }
  timeline.products = std::exchange(operators_, {});
  sort_products(timeline);
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
  product.correlation = correlation;
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
  timeline.products.push_back(product);
}

}  // namespace traintrace::kineto
