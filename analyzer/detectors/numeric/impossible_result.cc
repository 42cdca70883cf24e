// Sums that what the ranks gave cannot have, however it was added up.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/element_sums.h"
#include "analyzer/numbers/sum_limits.h"

namespace traintrace {
namespace {

constexpr int16_t kSumOfInputs = 0, kAverageOfInputs = 4;  // ncclRedOp_t

// Empty: it is a possible one.
std::string what_is_impossible(const Checks& checks, const GivenSums& given,
                               const SumLimits& limits, const Check& result) {
  const format::PayloadTally& tally = result.tally;
  if (holds_nonfinite(result)) {
    return nonfinite_text(tally.nans, tally.infinities) + " of finite inputs that cannot overflow";
  }
  if (tally.largest > limits.largest) {
    return fmt::format("a value of {:.9g}, where at most {:.9g} is possible", tally.largest,
                       limits.largest);
  }
  if (std::sqrt(tally.square_sum) > limits.norm) {
    return fmt::format("a norm of {:.9g}, where at most {:.9g} is possible",
                       std::sqrt(tally.square_sum), limits.norm);
  }
  if (std::abs(tally.sum - limits.sum) > limits.deviation) {
    return fmt::format(
        "its elements add up to {:.9g}, those of the inputs to {:.9g}; rounding explains {:.3g} at "
        "most",
        tally.sum, limits.sum, limits.deviation);
  }
  if (const auto element = impossible_element(checks, given, result)) {
    return fmt::format(
        "its element {} is {:.9g}, which those of the inputs do not give in any order: between "
        "{:.9g} and {:.9g} is possible",
        element->index, element->value, element->least, element->most);
  }
  const auto sketched = sketch_deviation(checks, given, result);
  return sketched && sketched->over_rounding > 1
             ? fmt::format(
                   "it differs from the sum of the inputs by about {:.3g} (norm, estimated from "
                   "sums with random signs), {:.3g} times what rounding explains at most",
                   sketched->norm, sketched->over_rounding)
             : "";
}

// What the result would be without one rank's data; none, or several: nothing is said.
std::string missing_share(const Checks& checks, const GivenSums& given, const SumLimits& limits,
                          const Check& result) {
  const double scale = scale_of(given, result);
  const auto would_fit = [&](const Check* check) {
    const auto sketched = sketch_deviation(checks, given, result, check);
    return std::abs(result.tally.sum - (limits.sum - check->tally.sum * scale)) <=
               limits.deviation &&
           (!sketched || sketched->over_rounding <= 1);
  };
  const auto found = std::find_if(given.of_ranks.begin(), given.of_ranks.end(), would_fit);
  return !holds_nonfinite(result) && given.ranks > 2 &&
                 std::count_if(given.of_ranks.begin(), given.of_ranks.end(), would_fit) == 1
             ? fmt::format("it adds up as it would without the data of rank {}",
                           (*found)->rank.value)
             : "";
}

bool is_judged(const Run& run, const Checks& checks, const CheckedOperation& operation) {
  const Check& first = checks.all[operation.first];
  const bool sums = first.operation == format::kCheckedAllReduce ||
                    first.operation == format::kCheckedReduce ||
                    first.operation == format::kCheckedReduceScatter;
  return operation.agrees && sums && is_real(first.type) &&
         (first.reduction == kSumOfInputs || first.reduction == kAverageOfInputs) &&
         is_complete(run, side_of(checks_of(checks, operation), format::kCheckedInput));
}

// If they are not, numeric.result-differs says more.
bool have_same_result(std::span<const Check> outputs) {
  return outputs.empty() || outputs.front().operation != format::kCheckedAllReduce ||
         std::all_of(outputs.begin(), outputs.end(), holds_nonfinite) ||
         std::all_of(outputs.begin(), outputs.end(), [&](const Check& check) {
           return check.tally.hash == outputs.front().tally.hash;
         });
}

struct ImpossibleResult {
  const CheckedOperation* operation;
  const Check* first;  // result
  Ranks ranks;
  std::vector<std::string> evidence;
};

ImpossibleResult impossible_result(const Checks& checks, const CheckedOperation& operation) {
  const std::span<const Check> all = checks_of(checks, operation);
  const std::span<const Check> outputs = side_of(all, format::kCheckedOutput);
  ImpossibleResult found{&operation, nullptr, {}, {}};
  for (const Check& result : outputs) {
    const auto part = result.operation == format::kCheckedReduceScatter
                          ? static_cast<uint32_t>(result.member)
                          : 0;
    const auto given = given_sums(side_of(all, format::kCheckedInput), part);
    const auto limits = given ? limits_of(*given, result) : std::nullopt;
    const std::string what =
        limits && has_sums(result) ? what_is_impossible(checks, *given, *limits, result) : "";
    if (!what.empty()) {
      found.first = found.first == nullptr ? &result : found.first;
      insert(found.ranks, result.rank);
      const std::string share = missing_share(checks, *given, *limits, result);
      found.evidence.push_back(fmt::format("result at rank {}: {}{}{}", result.rank.value, what,
                                           share.empty() ? "" : "; ", share));
    }
  }
  return found;
}

Finding impossible_finding(const Run& run, const Checks& checks,
                           const std::vector<ImpossibleResult>& all) {
  const ImpossibleResult& first = all.front();
  Finding finding = check_finding(run, checks, "numeric.impossible-result", *first.first);
  finding.sides = {first.ranks};
  finding.evidence = cut(first.evidence);
  finding.title = fmt::format("{} gave {} a result that its inputs cannot have",
                              operation_text(run, *first.first), ranks_text(first.ranks));
  finding.values = {{"since_ns", elapsed(run.start, first.operation->time)},
                    {"differing_count", static_cast<int64_t>(all.size())},
                    {"compared_count", compared_count(checks, *first.first)}};
  finding.advice =
      "first rule out another stream of the job that writes a buffer without waiting; then repeat "
      "the step with NCCL_ALGO=Ring and NCCL_PROTO=Simple, and on other nodes: the result does not "
      "tell which rank or link it was";
  return finding;
}

}  // namespace

std::vector<Finding> find_impossible_results(const Run& run, const Numbers& numbers) {
  const Checks& checks = numbers.checks;
  std::map<std::pair<uint32_t, format::CheckedOperation>, std::vector<ImpossibleResult>> found;
  for (const CheckedOperation& operation : checks.operations) {
    if (!is_judged(run, checks, operation) ||
        !have_same_result(side_of(checks_of(checks, operation), format::kCheckedOutput))) {
      continue;
    }
    ImpossibleResult result = impossible_result(checks, operation);
    if (result.first != nullptr) {
      found[{result.first->communicator, result.first->operation}].push_back(std::move(result));
    }
  }
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (const auto& [what, all] : found) {
    findings.push_back(impossible_finding(run, checks, all));
  }
  return findings;
}

}  // namespace traintrace
