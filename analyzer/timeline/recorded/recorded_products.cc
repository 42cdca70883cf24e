#include "analyzer/timeline/recorded/recorded_products.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "analyzer/text/words.h"

namespace traintrace {
namespace {

// By cudaDataType.
ElementType type_of(uint64_t type) {
  switch (type) {
    case 0:
      return ElementType::kSingle;
    case 1:
      return ElementType::kDouble;
    case 2:
      return ElementType::kHalf;
    case 3:
      return ElementType::kInt8;
    case 14:
      return ElementType::kBfloat16;
    case 28:  // e4m3, e5m2
    case 29:
      return ElementType::kFp8;
    default:
      return ElementType::kUnknown;
  }
}

MatrixProduct product_of(const ProcessTrace& trace, const CallRecord& event) {
  const std::vector<FieldSchema>& fields = trace.calls[event.call].fields;
  const auto values = trace.values_of(event);
  const auto value = [&](std::string_view name) -> std::optional<uint64_t> {
    for (size_t i = 0; i < fields.size() && i < values.size(); ++i) {
      if (fields[i].name == name) {
        return values[i];
      }
    }
    return std::nullopt;
  };
  const auto size = [&](std::string_view name, uint64_t fallback) {
    return static_cast<int64_t>(value(name).value_or(fallback));
  };
  MatrixProduct product;
  constexpr uint64_t kNone = ~uint64_t{0};
  const uint64_t a_type = value("a_type").value_or(kNone);
  const ElementType type = type_of(a_type);
  product.type = type == type_of(value("b_type").value_or(a_type)) ? type : ElementType::kUnknown;
  const int64_t batch = size("batch", 1);
  const int64_t m = size("m", 0);
  const int64_t n = size("n", 0);
  const int64_t k = size("k", 0);
  if (std::min({batch, m, n, k}) > 0) {
    product.batch = batch;
    product.m = m;
    product.n = n;
    product.k = k;
  }
  return product;
}

}  // namespace

void RecordedProducts::called(const ProcessTrace& trace, const CallRecord& event) {
  newest_.erase(event.thread);
  const bool failed = event.returned && event.result != 0;
  if (event.enter_lost || failed || (!event.returned && event.leave_lost)) {
    return;
  }
  const TimeNs end = event.returned ? event.leave : std::numeric_limits<TimeNs>::max();
  newest_[event.thread] = {static_cast<uint32_t>(products_.size()), end};
  products_.push_back(product_of(trace, event));
}

void RecordedProducts::launched(uint32_t thread, TimeNs time, uint64_t correlation) {
  const auto open = newest_.find(thread);
  if (open != newest_.end() && time <= open->second.end) {
    launched_.push_back({correlation, open->second.multiplication});
  }
}

void RecordedProducts::finish(Timeline& timeline) {
  ProductTable table;
  std::vector<Multiplication> multiplications;
  multiplications.reserve(products_.size());
  for (const MatrixProduct& product : std::exchange(products_, {})) {
    multiplications.push_back({table.index_of(product, timeline)});
  }
  add_main_work(multiplications, std::move(launched_), timeline);
}

std::vector<DeviceModel> recorded_models(const ProcessTrace& trace) {
  std::vector<DeviceModel> models;
  constexpr std::string_view kPrefix = "gpu-";
  for (auto fact = trace.facts.lower_bound(std::string(kPrefix));
       fact != trace.facts.end() && fact->first.starts_with(kPrefix); ++fact) {
    const std::string_view text = fact->second;
    const size_t dot = text.find('.');
    const size_t blank = text.find(' ');
    if (dot == text.npos || blank == text.npos || dot > blank) {
      continue;
    }
    const auto device = parse_unsigned(std::string_view(fact->first).substr(kPrefix.size()));
    const auto major = parse_unsigned(text.substr(0, dot));
    const auto minor = parse_unsigned(text.substr(dot + 1, blank - dot - 1));
    constexpr uint64_t kMost = 1000;
    if (device && major && minor && std::max({*device, *major, *minor}) < kMost) {
      models.push_back({static_cast<int32_t>(*device), static_cast<int32_t>(*major),
                        static_cast<int32_t>(*minor), std::string(text.substr(blank + 1))});
    }
  }
  return models;
}

}  // namespace traintrace
