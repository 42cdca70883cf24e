#include "analyzer/numbers/sum_limits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "analyzer/numbers/precision.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr int16_t kAverageOfInputs = 4;  // ncclRedOp_t

bool is_power_of_two(int ranks) {
  return std::has_single_bit(static_cast<unsigned>(ranks));
}

// The arithmetic of one result.
struct Rounding {
  int ranks;
  double unit;
  double factors;    // relative error of what each rank's numbers are multiplied with
  double relative;   // largest relative error of the whole, where nothing cancels out
  double near_zero;  // absolute error of an element besides
};

// None: with so many ranks and so few digits anything is possible.
std::optional<Rounding> rounding_of(const GivenSums& given, const Check& result) {
  const Precision precision = precision_of(result.type);
  // Each rank's numbers are added once; for an average they are multiplied, by a factor that is
  // rounded unless it is a power of two.
  const bool average = result.reduction == kAverageOfInputs;
  const int of_average = average && !is_power_of_two(given.ranks) ? 2 : 0;
  const double roundings = given.ranks - 1 + of_average;
  if (roundings * precision.unit >= 0.5) {
    return std::nullopt;
  }
  const double relative = roundings * precision.unit / (1 - roundings * precision.unit);
  // Sums of numbers near zero are exact where these are kept; what they are multiplied with rounds.
  const double products = average ? given.ranks * precision.step / 2 : 0;
  return Rounding{given.ranks, precision.unit, of_average * precision.unit / (1 - relative),
                  relative, precision.step > 0 ? products : roundings * precision.tiniest};
}

// The size of all rounding errors in a result, from the sizes of the inputs, added up, and of the
// result: absolute sums, or norms.  It holds for each element, in whatever order it is added up, so
// by the triangle inequality for these.  Each addition rounds by at most `unit` times what it
// gives.  The last gives the result.  What one before it gives is at most the absolute sum of the
// inputs that it has, and at most that of the result and the inputs that it has not: so at most
// half of all these together.
double size_of_errors(const Rounding& rounding, double inputs, double result) {
  const double inner = (rounding.ranks - 2) / 2.0;
  const double added = inputs * (1 + rounding.factors);
  return rounding.unit * (inner * (added + result) + result) / (1 - rounding.unit * inner) +
         rounding.factors * inputs;
}

// Of one row of a sketch.
struct RowDeviation {
  double elements;
  double squares;    // of what is beyond our own inaccuracy
  double in_errors;  // the same in units of the norm of the rounding errors
};

const SketchRow& row_of(const Checks& checks, const Check& check, uint32_t row) {
  return checks.sketches[check.sketch - 1][row];
}

RowDeviation row_deviation(const Checks& checks, const GivenSums& given, const Check& result,
                           const Rounding& rounding, uint32_t row, const Check* without) {
  const double scale = scale_of(given, result);
  double sum = 0, absolute_sum = 0, norm = 0;
  for (const Check* const check : given.of_ranks) {
    const SketchRow& own = row_of(checks, *check, row);
    sum += check == without ? 0 : own.signed_sum * scale;
    absolute_sum += std::abs(own.signed_sum) * scale;
    norm += own.norm * scale;
  }
  const SketchRow& got = row_of(checks, result, row);
  const bool has_one_more = row < result.count % format::kPayloadRows;
  const uint64_t whole_rows = result.count / format::kPayloadRows;
  const auto elements = static_cast<double>(whole_rows + (has_one_more ? 1 : 0));
  // Our own sums are doubles, recorded as floats.
  const double inaccuracy = elements * 0x1p-52 * std::sqrt(elements) * (norm + got.norm) +
                            0x1p-24 * (absolute_sum + std::abs(got.signed_sum)) +
                            (given.ranks + 1) * double{std::numeric_limits<float>::min()};
  const double errors =
      size_of_errors(rounding, norm, got.norm) + std::sqrt(elements) * rounding.near_zero;
  const double deviation = std::max(std::abs(got.signed_sum - sum) - inaccuracy, 0.0);
  const double in_errors = deviation / errors;
  return {elements, deviation * deviation, in_errors * in_errors};
}

bool has_finite_sketch(const Checks& checks, const Check& check) {
  return check.sketch != 0 &&
         std::all_of(checks.sketches[check.sketch - 1].begin(),
                     checks.sketches[check.sketch - 1].end(), [](const SketchRow& row) {
                       return std::isfinite(row.signed_sum) && std::isfinite(row.norm);
                     });
}

}  // namespace

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

double scale_of(const GivenSums& given, const Check& result) {
  return result.reduction == kAverageOfInputs ? 1.0 / given.ranks : 1;
}

std::optional<SumLimits> limits_of(const GivenSums& given, const Check& result) {
  const std::optional<Rounding> rounding = rounding_of(given, result);
  const double above = rounding ? 1 + rounding->relative : 1;
  if (!rounding || given.largest * above >= precision_of(result.type).greatest) {
    return std::nullopt;
  }
  const double scale = scale_of(given, result);
  const auto count = static_cast<double>(result.count);
  const double tally_error = count * 0x1p-52;  // of our own sums, which are doubles
  const double absolute_sum = given.absolute_sum * scale;
  const double near_zero = rounding->near_zero;
  return SumLimits{given.sum * scale,
                   size_of_errors(*rounding, absolute_sum, result.tally.absolute_sum) +
                       count * near_zero + tally_error * (absolute_sum + result.tally.absolute_sum),
                   given.largest * scale * above + near_zero,
                   (given.norm * scale * above + std::sqrt(count) * near_zero) * (1 + tally_error)};
}

// The signs are as good as random for the errors e of n elements, so by Hoeffding's inequality
// their signed sum is beyond t |e| with a probability of 2 exp(-t^2 / 2) at most, and by Cauchy's
// never beyond sqrt(n) |e|.  Of r rows the squares of such sums, each in units of its own |e|, are
// together beyond r + 2 sqrt(r t) + 2 t with a probability of exp(-t) at most (Hsu, Kakade and
// Zhang, "A tail inequality for quadratic forms of subgaussian random vectors", 2012).  |e| is
// taken at its worst.
std::optional<SketchDeviation> sketch_deviation(const Checks& checks, const GivenSums& given,
                                                const Check& result, const Check* without) {
  const std::optional<Rounding> rounding = rounding_of(given, result);
  if (!rounding || !has_finite_sketch(checks, result) ||
      !std::all_of(given.of_ranks.begin(), given.of_ranks.end(),
                   [&](const Check* check) { return has_finite_sketch(checks, *check); })) {
    return std::nullopt;
  }
  const double unlikely = -std::log(kSketchChance);
  const double of_one_row = 2 * (unlikely + std::log(2.0 * format::kPayloadRows));
  double rows = 0, squares = 0, in_errors = 0, over = 0;
  for (uint32_t row = 0; row < std::min<uint64_t>(format::kPayloadRows, result.count); ++row) {
    const RowDeviation own = row_deviation(checks, given, result, *rounding, row, without);
    ++rows;
    squares += own.squares;
    in_errors += own.in_errors;
    over = std::max(over, own.in_errors / std::min(own.elements, of_one_row));
  }
  const auto count = static_cast<double>(result.count);
  const double of_all_rows = rows + 2 * std::sqrt(rows * unlikely) + 2 * unlikely;
  over = std::max(over, in_errors / std::min(count, of_all_rows));
  return SketchDeviation{std::sqrt(squares), std::sqrt(over)};
}

}  // namespace traintrace
