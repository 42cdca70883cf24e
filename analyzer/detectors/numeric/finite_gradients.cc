#include "analyzer/detectors/numeric/finite_gradients.h"

#include <algorithm>
#include <functional>
#include <span>

#include "analyzer/detectors/numeric/check_finding.h"

namespace traintrace {

FiniteGradients::FiniteGradients(const Checks& checks) {
  for (const CheckedBucket& bucket : checks.buckets) {
    if (!is_of_gradients(checks, bucket)) {
      continue;
    }
    std::vector<TimeNs>& times = times_.emplace_back();
    for (const size_t number : bucket.operations) {
      const CheckedOperation& operation = checks.operations[number];
      const std::span<const Check> all = checks_of(checks, operation);
      if (std::any_of(all.begin(), all.end(), holds_nonfinite)) {
        last_bad_ = std::max(last_bad_, operation.time);
      }
      times.push_back(operation.time);
    }
    std::sort(times.begin(), times.end());
  }
}

size_t FiniteGradients::count_since(TimeNs time) const {
  size_t most = 0;
  for (const std::vector<TimeNs>& times : times_) {
    const auto first = std::upper_bound(times.begin(), times.end(), time);
    most = std::max(most, static_cast<size_t>(times.end() - first));
  }
  return last_bad_ > time ? 0 : most;
}

size_t finite_values_since(const Numbers& numbers, TimeNs time) {
  size_t most = 0;
  for (const ScalarSeries& series : numbers.scalars) {
    const auto first = std::upper_bound(series.times.begin(), series.times.end(), time);
    const auto values =
        std::span(series.values).subspan(static_cast<size_t>(first - series.times.begin()));
    if (std::any_of(values.begin(), values.end(),
                    [&](uint64_t value) { return is_nonfinite(series.type.type, value); })) {
      return 0;
    }
    const bool is_float =
        series.type.type == ScalarType::kFloat32 || series.type.type == ScalarType::kFloat64;
    const bool changes =
        std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end();
    most = std::max(most, is_float && changes ? values.size() : 0);
  }
  return most;
}

}  // namespace traintrace
