// A rank whose numbers, as its loss, were among those of the others at first, and are far away from
// all of them now.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/numbers_diff.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Of one line of code, one of each rank.
using Line = std::span<const ScalarSeries>;

double value_at(const ScalarSeries& series, size_t index) {
  return number_of(series.type.type, series.values[index], series.bytes);
}

// Values of one number belong together: as many on all ranks, and none of them is lost.
bool can_compare(const Run& run, const Line& line) {
  std::set<Rank> ranks;
  for (const ScalarSeries& series : line) {
    const size_t count = series.values.size();
    const size_t usual = line.front().values.size();
    const bool is_real =
        series.type.type == ScalarType::kFloat32 || series.type.type == ScalarType::kFloat64;
    if (!is_real || std::max(count, usual) - std::min(count, usual) > 1 ||
        !is_complete(run.processes[series.process]) || !ranks.insert(series.rank).second) {
      return false;
    }
  }
  return ranks.size() > kFewestOthers;
}

struct Others {
  double least = 0, largest = 0;
  double spread() const { return largest - least; }
};

// None: some of them are not finite.
std::optional<Others> others_at(const Line& line, size_t own, size_t index) {
  std::optional<Others> others;
  for (size_t i = 0; i < line.size(); ++i) {
    const double value = value_at(line[i], index);
    if (!std::isfinite(value)) {
      return std::nullopt;
    }
    if (i != own) {
      others = others.value_or(Others{value, value});
      others->least = std::min(others->least, value);
      others->largest = std::max(others->largest, value);
    }
  }
  return others;
}

// By how much it is beyond all the others; 0: it is among them.
double distance(const Others& others, double value) {
  return std::max({0.0, value - others.largest, others.least - value});
}

bool is_apart(const Line& line, size_t own, size_t index) {
  const std::optional<Others> others = others_at(line, own, index);
  if (!others || others->spread() == 0) {  // the same on all: numeric.replica-drift
    return false;
  }
  const double apart = distance(*others, value_at(line[own], index));
  return apart >= kNormSpike * others->spread() &&
         apart >= kNormAboveOthers * std::max(std::abs(others->least), std::abs(others->largest));
}

bool was_among_others(const Line& line, size_t own) {
  const std::optional<Others> others = others_at(line, own, 0);
  return others && distance(*others, value_at(line[own], 0)) <= others->spread();
}

struct Departure {
  size_t own = 0;    // in the line
  size_t since = 0;  // value
  size_t last = 0;
};

// Only one of them can be far from all others.
std::optional<Departure> departure_of(const Line& line) {
  const auto by_count = [](const ScalarSeries& a, const ScalarSeries& b) {
    return a.values.size() < b.values.size();
  };
  const size_t count = std::min_element(line.begin(), line.end(), by_count)->values.size();
  if (count < kFewestNorms) {
    return std::nullopt;
  }
  const auto by_last = [&](const ScalarSeries& a, const ScalarSeries& b) {
    return value_at(a, count - 1) < value_at(b, count - 1);
  };
  const auto [least, largest] = std::minmax_element(line.begin(), line.end(), by_last);
  for (const auto& outermost : {least, largest}) {
    const auto own = static_cast<size_t>(outermost - line.begin());
    size_t since = count;
    while (since > 0 && is_apart(line, own, since - 1)) {
      --since;
    }
    if (count - since >= kFewestNorms && was_among_others(line, own)) {
      return Departure{own, since, count - 1};
    }
  }
  return std::nullopt;
}

Finding apart_finding(const Run& run, const Line& line, const Departure& departure) {
  const ScalarSeries& own = line[departure.own];
  const Others others = *others_at(line, departure.own, departure.last);
  Finding finding = numeric_finding("numeric.rank-apart");
  finding.certainty = Certainty::kPossible;
  finding.sides = {{own.rank}, {}};
  for (const ScalarSeries& each : line) {
    if (each.rank != own.rank) {
      insert(finding.sides.back(), each.rank);
    }
  }
  if (own.place) {
    finding.where = {*own.place};
  }
  finding.title = fmt::format(
      "the number that rank {} fetches at {} went from {:.4g} to {:.4g}, far from the {} others, "
      "where it is {:.4g} to {:.4g} by now",
      own.rank.value, place_text(own), value_at(own, 0), value_at(own, departure.last),
      line.size() - 1, others.least, others.largest);
  finding.evidence = {fmt::format("rank {}: far from all others since value {} of {}, at {}",
                                  own.rank.value, departure.since + 1, departure.last + 1,
                                  run_time(run, own.times[departure.since]))};
  finding.values = {{"since_ns", elapsed(run.start, own.times[departure.since])},
                    {"in_a_row_count", static_cast<int64_t>(departure.last + 1 - departure.since)}};
  finding.advice =
      "if it is a loss, and all ranks train one model: compare that rank's data, learning rate and "
      "weights with the others'";
  return finding;
}

}  // namespace

std::vector<Finding> find_ranks_apart(const Run& run, const Numbers& numbers) {
  std::vector<Finding> findings;
  const std::vector<ScalarSeries>& all = numbers.scalars;
  for (size_t first = 0; first < all.size();) {
    size_t end = first + 1;
    while (end < all.size() && are_of_one_line(all[first], all[end])) {
      ++end;
    }
    const Line line(&all[first], end - first);
    const auto departure = can_compare(run, line) ? departure_of(line) : std::nullopt;
    if (departure) {
      findings.push_back(apart_finding(run, line, *departure));
    }
    first = end;
  }
  return findings;
}

}  // namespace traintrace
