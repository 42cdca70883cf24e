#include "analyzer/numbers/element_sums.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <vector>

#include "analyzer/numbers/precision.h"

namespace traintrace {
namespace {

constexpr int kMostRanks = 8;            // 3^8 ways to split a set of them in two
constexpr int16_t kDoubles = 8;          // ncclDataType_t; rows of a sketch have no room for them
constexpr int16_t kAverageOfInputs = 4;  // ncclRedOp_t
constexpr int kDigitsOfFloat = 24;
constexpr double kFloatInaccuracy = 0x1p-22;  // of a factor, a product and their sum
constexpr double kOwnInaccuracy = 0x1p-48;    // of our sums, which are doubles

struct Between {
  double least, most;

  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

// The arithmetic of one type.
class Arithmetic {
 public:
  explicit Arithmetic(const Precision& precision)
      : precision_(precision), digits_(1 - std::ilogb(2 * precision.unit)) {}

  double rounded(double value) const {
    if (value == 0 || !std::isfinite(value)) {
      return value;
    }
    const int least = precision_.step > 0 ? std::ilogb(precision_.step) : INT_MIN;
    const int last = std::max(std::ilogb(value) - digits_ + 1, least);
    return std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  }
  // Rounded, or not: some algorithms add several numbers up before they round.  What is computed as
  // a float before may lie on the other side of the middle between two numbers.
  void add_either(double value, Between& between) const {
    const double error = digits_ < kDigitsOfFloat ? kFloatInaccuracy * std::abs(value) : 0;
    between.add(value);
    between.add(rounded(value - error));
    between.add(rounded(value + error));
  }
  double unit() const { return precision_.unit; }
  // Of as many operations, beyond what rounded() says.
  double error_near_zero(int operations) const {
    return precision_.step > 0 ? 0 : operations * precision_.tiniest;
  }

 private:
  Precision precision_;
  int digits_;
};

// As an average has them: the factor, and what it is multiplied with, may be rounded.
void add_shares(const Arithmetic& arithmetic, double value, size_t ranks, Between& between) {
  const double share = 1.0 / static_cast<double>(ranks);
  arithmetic.add_either(value * share, between);
  arithmetic.add_either(value * arithmetic.rounded(share), between);
}

// Of a set of addends, what each of the two parts that were added last can be says what the sum can
// be: rounding never turns the order of two numbers round.
Between sums_of(const Arithmetic& arithmetic, const std::vector<Between>& addends) {
  std::vector<Between> of_set(size_t{1} << addends.size());
  for (uint32_t set = 1; set < of_set.size(); ++set) {
    const auto first = static_cast<size_t>(std::countr_zero(set));
    if (std::has_single_bit(set)) {
      of_set[set] = addends[first];
      continue;
    }
    const uint32_t others = set & (set - 1);
    Between between{HUGE_VAL, -HUGE_VAL};
    for (uint32_t part = others; part != 0; part = (part - 1) & others) {
      const Between& a = of_set[part];
      const Between& b = of_set[set ^ part];
      arithmetic.add_either(a.least + b.least, between);
      arithmetic.add_either(a.most + b.most, between);
    }
    of_set[set] = between;
  }
  return of_set.back();
}

Between sums_or_averages(const Arithmetic& arithmetic, const std::vector<double>& given,
                         bool average) {
  std::vector<Between> addends;
  addends.reserve(given.size());
  for (const double value : given) {
    addends.push_back({value, value});
  }
  const Between sum = sums_of(arithmetic, addends);
  if (!average) {
    return sum;
  }
  Between between{HUGE_VAL, -HUGE_VAL};  // divided afterwards, or before
  add_shares(arithmetic, sum.least, given.size(), between);
  add_shares(arithmetic, sum.most, given.size(), between);
  for (size_t i = 0; i < given.size(); ++i) {
    addends[i] = {HUGE_VAL, -HUGE_VAL};
    add_shares(arithmetic, given[i], given.size(), addends[i]);
  }
  const Between of_shares = sums_of(arithmetic, addends);
  between.add(of_shares.least);
  between.add(of_shares.most);
  return between;
}

// The size of what may be added on the way, more or less: one rounding of that much is nothing odd.
double size_of(const std::vector<double>& given, double scale, double result) {
  double size = std::abs(result);
  for (const double value : given) {
    size += std::abs(value) * scale;
  }
  return size / 2;
}

}  // namespace

std::optional<ImpossibleElement> impossible_element(const Checks& checks, const GivenSums& given,
                                                    const Check& result) {
  const bool all_known =
      result.sketch != 0 && std::all_of(given.of_ranks.begin(), given.of_ranks.end(),
                                        [](const Check* check) { return check->sketch != 0; });
  if (!all_known || given.ranks > kMostRanks || result.count > format::kPayloadRows ||
      result.type == kDoubles) {
    return std::nullopt;
  }
  const Arithmetic arithmetic(precision_of(result.type));
  const bool average = result.reduction == kAverageOfInputs;
  const double scale = scale_of(given, result);
  for (uint64_t index = 0; index < result.count; ++index) {
    const double sign = format::payload_sign(index) != 0 ? -1 : 1;
    const auto element_of = [&](const Check& check) {
      return sign * double{checks.sketches[check.sketch - 1][index].signed_sum};
    };
    std::vector<double> addends;
    double exact = 0;
    for (const Check* const check : given.of_ranks) {
      addends.push_back(element_of(*check));
      exact += addends.back() * scale;
    }
    const double value = element_of(result);
    const double size = size_of(addends, scale, value);
    if (std::abs(value - exact) <= arithmetic.unit() * size) {
      continue;
    }
    const Between possible = sums_or_averages(arithmetic, addends, average);
    const double inaccuracy = arithmetic.error_near_zero(given.ranks + 2) + kOwnInaccuracy * size;
    if (value < possible.least - inaccuracy || value > possible.most + inaccuracy) {
      return ImpossibleElement{index, value, possible.least, possible.most};
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
