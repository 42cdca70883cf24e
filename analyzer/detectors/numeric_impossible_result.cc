// Sums that what the ranks gave cannot have, however it was added up.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "analyzer/detectors/check_finding.h"
#include "analyzer/detectors/numeric.h"
#include "analyzer/detectors/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/precision.h"

namespace traintrace {
namespace {

constexpr int16_t kSumOfInputs = 0, kAverageOfInputs = 4;  // ncclRedOp_t

// What all ranks gave for one result.
struct GivenSums {
  int ranks = 0;
  double sum = 0, absolute_sum = 0, largest = 0, norm = 0;
  std::vector<const Check*> of_ranks;
};

// What a result may be at most, and how far its sum may lie from `sum`.
struct Limits {
  double sum, deviation, largest, norm;
};

bool is_power_of_two(int ranks) {
  return std::has_single_bit(static_cast<unsigned>(ranks));
}

// How far a result's sum may lie from that of its inputs, in whatever order they are added: each
// addition rounds by at most `unit` times what it gives.  The last gives the result.  What one
// before it gives is at most the absolute sum of the inputs that it has, and at most that of the
// result and the inputs that it has not: so at most half of all these together.
double rounding_of_sums(int ranks, double unit, double inputs, double result) {
  const double inner = (ranks - 2) / 2.0;
  return unit * (inner * (inputs + result) + result) / (1 - unit * inner);
}

// None: it may overflow, or anything is possible with so many ranks and so few digits.
std::optional<Limits> limits_of(const GivenSums& given, const Check& result) {
  const Precision precision = precision_of(result.type);
  const bool average = result.reduction == kAverageOfInputs;
  const double scale = average ? 1.0 / given.ranks : 1;
  // Each rank's numbers are added once; for an average they are multiplied, by a factor that is
  // rounded unless it is a power of two.
  const int of_average = average && !is_power_of_two(given.ranks) ? 2 : 0;
  const double roundings = given.ranks - 1 + of_average;
  if (roundings * precision.unit >= 0.5) {
    return std::nullopt;
  }
  const double relative = roundings * precision.unit / (1 - roundings * precision.unit);
  if (given.largest * (1 + relative) >= precision.greatest) {
    return std::nullopt;
  }
  const double factors = of_average * precision.unit / (1 - relative);
  const auto count = static_cast<double>(result.count);
  const double tally_error = count * 0x1p-52;  // of our own sums, which are doubles
  const double absolute_sum = given.absolute_sum * scale;
  const double near_zero = roundings * precision.tiniest;
  return Limits{
      given.sum * scale,
      rounding_of_sums(given.ranks, precision.unit, absolute_sum * (1 + factors),
                       result.tally.absolute_sum) +
          factors * absolute_sum + count * near_zero +
          tally_error * (absolute_sum + result.tally.absolute_sum),
      given.largest * scale * (1 + relative) + near_zero,
      (given.norm * scale * (1 + relative) + std::sqrt(count) * near_zero) * (1 + tally_error)};
}

// Empty: it is a possible one.
std::string what_is_impossible(const Limits& limits, const Check& result) {
  const format::PayloadTally& tally = result.tally;
  if (holds_nonfinite(result)) {
    return fmt::format("{} NaN and {} Inf of finite inputs that cannot overflow", tally.nans,
                       tally.infinities);
  }
  if (tally.largest > limits.largest) {
    return fmt::format("a value of {:.9g}, where at most {:.9g} is possible", tally.largest,
                       limits.largest);
  }
  if (std::sqrt(tally.square_sum) > limits.norm) {
    return fmt::format("a norm of {:.9g}, where at most {:.9g} is possible",
                       std::sqrt(tally.square_sum), limits.norm);
  }
  const double deviation = std::abs(tally.sum - limits.sum);
  return deviation > limits.deviation
             ? fmt::format(
                   "its elements add up to {:.9g}, those of the inputs to {:.9g}; rounding "
                   "explains {:.3g} at most",
                   tally.sum, limits.sum, limits.deviation)
             : "";
}

// Of one part of the inputs; none: a rank's is missing, left out or not finite.
std::optional<GivenSums> given_sums(std::span<const Check> inputs, uint32_t part) {
  GivenSums given;
  for (const Check& check : inputs) {
    if (check.part != part) {
      continue;
    }
    if (holds_nonfinite(check) || !has_sums(check)) {
      return std::nullopt;
    }
    ++given.ranks;
    given.sum += check.tally.sum;
    given.absolute_sum += check.tally.absolute_sum;
    given.largest += check.tally.largest;
    given.norm += std::sqrt(check.tally.square_sum);
    given.of_ranks.push_back(&check);
  }
  const bool finite =
      std::isfinite(given.sum) && std::isfinite(given.absolute_sum) && std::isfinite(given.norm);
  return given.ranks > 1 && finite ? std::optional(given) : std::nullopt;
}

// What the result would be without one rank's data; none, or several: nothing is said.
std::string missing_share(const GivenSums& given, const Limits& limits, const Check& result) {
  const double scale = result.reduction == kAverageOfInputs ? 1.0 / given.ranks : 1;
  const auto would_fit = [&](const Check* check) {
    return std::abs(result.tally.sum - (limits.sum - check->tally.sum * scale)) <= limits.deviation;
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
    const std::string what = limits && has_sums(result) ? what_is_impossible(*limits, result) : "";
    if (!what.empty()) {
      found.first = found.first == nullptr ? &result : found.first;
      insert(found.ranks, result.rank);
      const std::string share = missing_share(*given, *limits, result);
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
      "which rank or link it was cannot be told from the result: first exclude another stream that "
      "writes a buffer without waiting; then repeat the step with NCCL_ALGO=Ring and "
      "NCCL_PROTO=Simple, and with other nodes";
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
