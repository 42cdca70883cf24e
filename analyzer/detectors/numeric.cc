#include "analyzer/detectors/numeric.h"

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/each_detector.h"

namespace traintrace {

Finding numeric_finding(std::string_view code) {
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  return finding;
}

std::vector<Finding> find_in_numbers(const Run& run, const Numbers& numbers) {
  using NumericDetector = std::vector<Finding> (*)(const Run&, const Numbers&);
  constexpr NamedDetector<NumericDetector> kDetectors[] = {
      TT_DETECTOR(find_first_nonfinite),
      TT_DETECTOR(find_skipped_steps),
      TT_DETECTOR(find_same_data),
      TT_DETECTOR(find_stuck_input),
  };
  std::vector<Finding> findings;
  find_with_each(kDetectors, findings, run, numbers);
  return findings;
}

}  // namespace traintrace
