// A sum of gradients that is larger than its type can hold, of numbers that are finite on all
// ranks.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/precision.h"
#include "analyzer/text/values.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// The operations of a bucket, up to the last, whose results are not finite.
struct SpoiledResults {
  const CheckedOperation* first;
  size_t before, count;
};

std::span<const Check> results_at(const Checks& checks, const CheckedOperation& operation) {
  return side_of(checks_of(checks, operation), format::kCheckedOutput);
}

std::optional<SpoiledResults> spoiled_results(const Checks& checks, const CheckedBucket& bucket) {
  const std::vector<size_t>& all = bucket.operations;
  size_t first = all.size();
  while (first > 0) {
    const auto results = results_at(checks, checks.operations[all[first - 1]]);
    if (std::none_of(results.begin(), results.end(), holds_nonfinite)) {
      break;
    }
    --first;
  }
  return first < all.size() ? std::optional(SpoiledResults{&checks.operations[all[first]], first,
                                                           all.size() - first})
                            : std::nullopt;
}

// That began first of all, whatever its reason is.
std::optional<SpoiledResults> first_spoiled(const Checks& checks) {
  std::optional<SpoiledResults> first;
  for (const CheckedBucket& bucket : checks.buckets) {
    const auto spoiled =
        is_of_gradients(checks, bucket) ? spoiled_results(checks, bucket) : std::nullopt;
    if (spoiled && (!first || spoiled->first->time < first->first->time)) {
      first = spoiled;
    }
  }
  return first;
}

// With the largest finite number of each rank.  Empty: some are not known or not finite, or could
// not add up to more than the type holds.
std::vector<RankTally> addends_that_overflow(const Run& run, const Checks& checks,
                                             const CheckedOperation& operation) {
  std::vector<RankTally> inputs = complete_inputs(run, checks, operation);
  double largest = 0;
  for (const RankTally& input : inputs) {
    if (input.tally.nonfinite() != 0) {
      return {};
    }
    largest += input.tally.largest;
  }
  const Precision precision = precision_of(checks.all[operation.first].type);
  const double rounding = 2 * static_cast<double>(inputs.size()) * precision.unit;
  return largest * (1 + rounding) >= precision.greatest ? inputs : std::vector<RankTally>{};
}

}  // namespace

std::optional<Finding> overflowed_sum(const Run& run, const Checks& checks) {
  const std::optional<SpoiledResults> spoiled = first_spoiled(checks);
  if (!spoiled || spoiled->before == 0 || spoiled->count < kFewestNonfinite) {
    return std::nullopt;
  }
  const CheckedOperation& operation = *spoiled->first;
  const std::vector<RankTally> inputs = addends_that_overflow(run, checks, operation);
  if (inputs.empty()) {
    return std::nullopt;
  }
  const auto results = results_at(checks, operation);
  const Check& result = *std::find_if(results.begin(), results.end(), holds_nonfinite);
  const std::string type = data_type_name(result.type);
  Finding finding = check_finding(run, checks, "numeric.first-nonfinite", result);
  finding.certainty = Certainty::kProof;
  finding.sides = {ranks_of_checks(results)};
  finding.title = fmt::format(
      "the sum of {} overflowed {}: what the ranks gave is finite, {} of {} numbers of the result "
      "are not",
      operation_text(run, result), type, result.tally.nans + result.tally.infinities, result.count);
  for (const RankTally& input : inputs) {
    finding.evidence.push_back(
        fmt::format("rank {} gave numbers up to {:.6g}; {} holds up to {:.6g}", input.rank.value,
                    input.tally.largest, type, precision_of(result.type).greatest));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.values = {{"since_ns", elapsed(run.start, operation.time)},
                    {"finite_count", static_cast<int64_t>(spoiled->before)},
                    {"nonfinite_count", static_cast<int64_t>(spoiled->count)}};
  finding.advice =
      "divide before the sum (ncclAvg, or a gradient_predivide_factor), reduce in float32 or "
      "bfloat16, or lower the scale by which the loss is multiplied";
  return finding;
}

}  // namespace traintrace
