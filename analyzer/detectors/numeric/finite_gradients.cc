#include "analyzer/detectors/numeric/finite_gradients.h"

#include <algorithm>

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

}  // namespace traintrace
