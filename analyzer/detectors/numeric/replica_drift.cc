// A number that was the same on all ranks, as one that is reduced is, and then is not.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/detectors/numeric/drift_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/batches.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// The same line of code on several ranks.
using LineOfCode = std::span<const ScalarSeries>;

bool is_comparable(LineOfCode line) {
  std::set<Rank> ranks;
  return line.size() > 1 && std::all_of(line.begin(), line.end(), [&](const ScalarSeries& series) {
           const ScalarType type = series.type.type;
           return ranks.insert(series.rank).second && type == line.front().type.type &&
                  (type == ScalarType::kFloat32 || type == ScalarType::kFloat64);
         });
}

std::vector<double> numbers_of_series(const ScalarSeries& series) {
  std::vector<double> numbers;
  numbers.reserve(series.values.size());
  for (const uint64_t bits : series.values) {
    numbers.push_back(number_of(series.type.type, bits, series.bytes));
  }
  return numbers;
}

std::optional<Drift> drift_at(LineOfCode line) {
  std::vector<std::vector<double>> numbers;
  std::vector<ReplicaSeries> all;
  for (const ScalarSeries& series : line) {
    numbers.push_back(numbers_of_series(series));
  }
  for (size_t i = 0; i < line.size(); ++i) {
    all.push_back({line[i].rank, line[i].values, numbers[i]});
  }
  return drift_of(all);
}

size_t series_of(LineOfCode line, Rank rank) {
  return static_cast<size_t>(
      std::find_if(line.begin(), line.end(),
                   [&](const ScalarSeries& series) { return series.rank == rank; }) -
      line.begin());
}

// Values of ranks that work on the same data are the same without being reduced; and when their
// data become their own, so do these values.
bool had_data_of_their_own(const Numbers& numbers, LineOfCode line, const Drift& drift) {
  constexpr std::ptrdiff_t kMostSides = 4;  // each reads what its ranks sent
  const ScalarSeries& first = line[series_of(line, drift.sides.front().front())];
  const auto others = static_cast<std::ptrdiff_t>(drift.sides.size()) - 1;
  const auto begin = drift.sides.begin() + 1;
  return std::all_of(begin, begin + std::min(others, kMostSides), [&](const Ranks& side) {
    return sent_different_data(numbers, first.rank, side.front(),
                               first.times[drift.first[series_of(line, first.rank)]]);
  });
}

std::string value_on(LineOfCode line, const Drift& drift, Rank rank) {
  const size_t index = series_of(line, rank);
  return text_at(line[index], drift.first[index]);
}

std::string drift_title(LineOfCode line, const Drift& drift, int64_t since_ns) {
  const std::string at = place_text(line.front());
  const std::string since = duration_text(since_ns);
  if (drift.odd) {
    return fmt::format(
        "rank {} has another number at {} than all other ranks since +{}: {} instead of {}; the {} "
        "values before were the same on all {} ranks",
        drift.odd->value, at, since, value_on(line, drift, *drift.odd),
        value_on(line, drift, drift.sides.front().front()), drift.equal, line.size());
  }
  return fmt::format(
      "a number at {} is not the same on all ranks since +{}: {} on {}, {} on {}; the {} values "
      "before were the same on all {} ranks",
      at, since, value_on(line, drift, drift.sides[0].front()), ranks_text(drift.sides[0]),
      value_on(line, drift, drift.sides[1].front()), ranks_text(drift.sides[1]), drift.equal,
      line.size());
}

Finding number_finding(const Run& run, LineOfCode line, const Drift& drift) {
  Finding finding = numeric_finding("numeric.replica-drift");
  const size_t shown = drift.odd ? series_of(line, *drift.odd) : 0;
  const int64_t since_ns = elapsed(run.start, line[shown].times[drift.first[shown]]);
  set_drift(drift, since_ns, finding);
  finding.title = drift_title(line, drift, since_ns);
  // It often evaluates or logs something of its own: averaged weights, another set of data.
  if (drift.odd && *drift.odd == line.front().rank) {
    finding.certainty = Certainty::kPossible;
    finding.culprits.clear();
  }
  if (line[shown].place) {
    finding.where.push_back(*line[shown].place);
  }
  size_t left = line.front().values.size();
  for (const Ranks& side : drift.sides) {
    const size_t index = series_of(line, side.front());
    finding.evidence.push_back(fmt::format("{}: value {} is {}", ranks_text(side),
                                           drift.first[index] + 1,
                                           text_at(line[index], drift.first[index])));
  }
  for (size_t i = 0; i < line.size(); ++i) {
    left = std::min(left, line[i].values.size() - drift.first[i]);
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.evidence.push_back(differing_line(drift, left));
  finding.advice =
      drift.is_rounding
          ? "the difference is as small as rounding: find out whether each rank adds this number "
            "up "
            "by itself"
          : "compare a hash of the parameters of all ranks (Megatron-LM: "
            "--check-weight-hash-across-dp-replicas-interval), and go back to a checkpoint from "
            "before this step";
  return finding;
}

// Of the same ranks the line that differed first; the others are evidence.
std::vector<Finding> with_later_lines(std::vector<Finding> found) {
  std::stable_sort(found.begin(), found.end(), [](const Finding& a, const Finding& b) {
    return a.values.front().second < b.values.front().second;
  });
  std::vector<Finding> first;
  for (Finding& finding : found) {
    const auto known = std::find_if(first.begin(), first.end(), [&](const Finding& other) {
      return other.sides == finding.sides && other.severity <= finding.severity;
    });
    if (known == first.end()) {
      first.push_back(std::move(finding));
    } else {
      known->evidence.push_back("later: " + finding.title);
      known->evidence = cut(std::move(known->evidence));
    }
  }
  return first;
}

}  // namespace

void set_drift(const Drift& drift, int64_t since_ns, Finding& finding) {
  const bool is_lasting = drift.differing >= kFewestDrifted && !drift.is_over && !drift.is_rounding;
  finding.severity = is_lasting ? finding.severity : Severity::kInfo;
  finding.certainty = drift.odd ? Certainty::kLikely : Certainty::kPossible;
  if (drift.odd && is_lasting) {
    finding.culprits = {*drift.odd};
  }
  finding.sides = drift.sides;
  finding.values = {{"since_ns", since_ns},
                    {"equal_count", static_cast<int64_t>(drift.equal)},
                    {"differing_count", static_cast<int64_t>(drift.differing)}};
}

std::string differing_line(const Drift& drift, size_t from_there_on) {
  return fmt::format("{} of the {} recorded from there on differ{}", drift.differing, from_there_on,
                     drift.is_rounding ? ", by no more than rounding changes" : "");
}

std::vector<Finding> find_replica_drift(const Run& run, const Numbers& numbers) {
  std::vector<Finding> found;
  const std::span<const ScalarSeries> all = numbers.scalars;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin + 1;
    while (end < all.size() && are_of_one_line(all[begin], all[end])) {
      ++end;
    }
    const LineOfCode line = all.subspan(begin, end - begin);
    begin = end;
    const std::optional<Drift> drift = is_comparable(line) ? drift_at(line) : std::nullopt;
    if (drift && (drift->odd || had_data_of_their_own(numbers, line, *drift))) {
      found.push_back(number_finding(run, line, *drift));
    }
  }
  return with_later_lines(std::move(found));
}

}  // namespace traintrace
