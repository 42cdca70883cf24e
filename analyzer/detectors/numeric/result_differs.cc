// An all-reduce after which ranks hold different data.  NCCL gives all of them the same bits.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

using ByResult = std::map<uint64_t, Ranks>;  // by hash

// The bits of a NaN may differ where nothing else does: of finite inputs all results with one count
// as the same, of others none counts.
ByResult results_of(std::span<const Check> operation) {
  constexpr uint64_t kNonfinite = 0;  // which no hash is
  const std::span<const Check> inputs = side_of(operation, format::kCheckedInput);
  const bool finite = std::none_of(inputs.begin(), inputs.end(), holds_nonfinite);
  ByResult results;
  for (const Check& check : side_of(operation, format::kCheckedOutput)) {
    const bool nonfinite = holds_nonfinite(check);
    if ((nonfinite && !finite) || !has_sums(check)) {
      return {};
    }
    insert(results[nonfinite ? kNonfinite : check.tally.hash], check.rank);
  }
  return results;
}

// Those whose result more than half of all members do not share, if there is such a half.
Ranks minority_of(const Run& run, const Check& check, const ByResult& results) {
  const int size = run.communicators[check.communicator].size;
  const auto is_majority = [&](const auto& result) {
    return result.second.size() * 2 > static_cast<size_t>(std::max(size, 0));
  };
  if (size < 3 || std::none_of(results.begin(), results.end(), is_majority)) {
    return {};
  }
  Ranks minority;
  for (const auto& result : results) {
    for (const Rank rank : result.second) {
      if (!is_majority(result)) {
        insert(minority, rank);
      }
    }
  }
  return minority;
}

// Of one communicator.
struct DifferingResults {
  std::vector<const CheckedOperation*> operations;
  Ranks minority;            // the same in all of them; else empty
  std::vector<Ranks> sides;  // in the first
};

void add_operation(const Run& run, const Checks& checks, const CheckedOperation& operation,
                   std::map<uint32_t, DifferingResults>& found) {
  const Check& first = checks.all[operation.first];
  if (!operation.agrees || first.operation != format::kCheckedAllReduce) {
    return;
  }
  const ByResult results = results_of(checks_of(checks, operation));
  if (results.size() < 2) {
    return;
  }
  DifferingResults& differing = found[first.communicator];
  const Ranks minority = minority_of(run, first, results);
  if (differing.operations.empty()) {
    differing.minority = minority;
    for (const auto& [hash, ranks] : results) {
      differing.sides.push_back(ranks);
    }
    std::sort(differing.sides.begin(), differing.sides.end());
  } else if (differing.minority != minority) {
    differing.minority.clear();
  }
  differing.operations.push_back(&operation);
}

std::string result_line(const Check& check) {
  return fmt::format("rank {}: hash {:016x}, sum {:.9g}, largest {:.9g}", check.rank.value,
                     check.tally.hash, check.tally.sum, check.tally.largest);
}

Finding differing_finding(const Run& run, const Checks& checks, const DifferingResults& found) {
  const CheckedOperation& operation = *found.operations.front();
  const Check& first = checks.all[operation.first];
  Finding finding = check_finding(run, checks, "numeric.result-differs", first);
  finding.culprits = found.minority;
  finding.certainty = found.minority.empty() ? Certainty::kProof : Certainty::kLikely;
  finding.sides = found.sides;
  if (!found.minority.empty()) {
    finding.where = places_of(checks, operation, found.minority);
  }
  const std::string who =
      found.minority.empty()
          ? fmt::format(
                "{} results for {} ranks", found.sides.size(),
                ranks_of_checks(side_of(checks_of(checks, operation), format::kCheckedOutput))
                    .size())
          : fmt::format("{} got other data than most", ranks_text(found.minority));
  finding.title = fmt::format("the result of {} is not the same on all ranks: {}",
                              operation_text(run, first), who);
  finding.values = {{"since_ns", elapsed(run.start, operation.time)},
                    {"differing_count", static_cast<int64_t>(found.operations.size())},
                    {"compared_count", compared_count(checks, first)}};
  for (const Check& check : side_of(checks_of(checks, operation), format::kCheckedOutput)) {
    finding.evidence.push_back(result_line(check));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.advice =
      "first rule out another stream of the job that writes the buffer without waiting; then "
      "repeat "
      "the step with NCCL_PROTO=Simple, which tells whether it is NCCL's protocol, and on another "
      "node, which tells whether it is a GPU or a link";
  return finding;
}

}  // namespace

std::vector<Finding> find_differing_results(const Run& run, const Numbers& numbers) {
  const Checks& checks = numbers.checks;
  std::map<uint32_t, DifferingResults> found;
  for (const CheckedOperation& operation : checks.operations) {
    add_operation(run, checks, operation, found);
  }
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (const auto& [communicator, differing] : found) {
    findings.push_back(differing_finding(run, checks, differing));
  }
  return findings;
}

}  // namespace traintrace
