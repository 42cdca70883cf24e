#include "analyzer/detectors/numeric/numeric.h"

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

int64_t since_ns(const Finding& finding) {
  const auto value = std::find_if(finding.values.begin(), finding.values.end(),
                                  [](const auto& one) { return one.first == "since_ns"; });
  return value == finding.values.end() ? 0 : value->second;
}

namespace {

bool are_among(const std::vector<Ranks>& some, const std::vector<Ranks>& all) {
  return std::all_of(some.begin(), some.end(), [&](const Ranks& side) {
    return std::find(all.begin(), all.end(), side) != all.end();
  });
}

// Of the same ranks one finding is enough: that they read the same batches, and compute the same
// from them.
void join_same_data(std::vector<Finding>& findings) {
  for (Finding& batches : findings) {
    if (batches.code != "numeric.same-data" || batches.sequence) {
      continue;
    }
    const auto is_of_them = [&](const Finding& other) {
      return other.code == batches.code && other.sequence && are_among(other.sides, batches.sides);
    };
    const auto gradients = std::find_if(findings.begin(), findings.end(), is_of_them);
    if (gradients != findings.end()) {
      batches.certainty = gradients->certainty;
      batches.evidence.push_back(gradients->title);
      findings.erase(gradients);
      return join_same_data(findings);
    }
  }
}

// Where NCCL's operations are checked, what went wrong in one of them says why a number drifts.
void join_drift(std::vector<Finding>& findings) {
  const auto cause = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.code == "numeric.result-differs" ||
           finding.code == "numeric.delivered-differs" ||
           finding.code == "numeric.impossible-result";
  });
  if (cause == findings.end()) {
    return;
  }
  const auto follows = [since = since_ns(*cause)](const Finding& finding) {
    return finding.code == "numeric.replica-drift" && since_ns(finding) >= since;
  };
  for (const Finding& finding : findings) {
    if (follows(finding)) {
      cause->evidence.push_back("consequence: " + finding.title);
    }
  }
  std::erase_if(findings, follows);
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
      TT_DETECTOR(find_replica_drift),      TT_DETECTOR(find_shard_drift),
      TT_DETECTOR(find_ranks_apart),        TT_DETECTOR(find_stuck_gradients),
  };
  std::vector<Finding> findings;
  find_with_each(kDetectors, findings, run, numbers);
  join_same_data(findings);
  join_drift(findings);
  return findings;
}

}  // namespace traintrace
