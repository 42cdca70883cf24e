#include "analyzer/detectors/numeric.h"

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/each_detector.h"

namespace traintrace {

Finding numeric_finding(std::string_view code) {
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  return finding;
}

namespace {

// Of the same ranks one finding is enough: that they read the same batches, and compute the same
// from them.
void join_same_data(std::vector<Finding>& findings) {
  for (Finding& batches : findings) {
    if (batches.code != "numeric.same-data" || batches.sequence) {
      continue;
    }
    const auto gradients =
        std::find_if(findings.begin(), findings.end(), [&](const Finding& other) {
          return other.code == batches.code && other.sequence && other.sides == batches.sides;
        });
    if (gradients != findings.end()) {
      batches.certainty = gradients->certainty;
      batches.evidence.push_back(gradients->title);
      findings.erase(gradients);
      return join_same_data(findings);
    }
  }
}

}  // namespace

std::vector<Finding> find_in_numbers(const Run& run, const Numbers& numbers) {
  using NumericDetector = std::vector<Finding> (*)(const Run&, const Numbers&);
  constexpr NamedDetector<NumericDetector> kDetectors[] = {
      TT_DETECTOR(find_first_nonfinite),    TT_DETECTOR(find_skipped_steps),
      TT_DETECTOR(find_same_data),          TT_DETECTOR(find_stuck_input),
      TT_DETECTOR(find_differing_results),  TT_DETECTOR(find_wrong_deliveries),
      TT_DETECTOR(find_impossible_results), TT_DETECTOR(find_zero_gradients),
      TT_DETECTOR(find_norm_spikes),        TT_DETECTOR(find_same_gradients),
  };
  std::vector<Finding> findings;
  find_with_each(kDetectors, findings, run, numbers);
  join_same_data(findings);
  return findings;
}

}  // namespace traintrace
