// Numbers that were recorded: a picture for each line of code, with a line for each rank.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "analyzer/numbers/curves.h"
#include "analyzer/numbers/numbers_diff.h"
#include "analyzer/page/page_data.h"

namespace traintrace {
namespace {

// A page of 1,024 ranks stays below a megabyte.
constexpr size_t kMostCharts = 24;
constexpr size_t kMostLines = 320;  // of all charts
constexpr size_t kMostLinesOfChart = 32;
constexpr size_t kMostPointsDrawn = 12'000;  // of all lines
constexpr size_t kFewestPoints = 32;         // of one line
constexpr size_t kMostPointsOfLine = 600;

// Ranks with the same values are one line.
struct NumberLine {
  const NumberCurve* curve = nullptr;  // of the first of them
  Ranks ranks;
  double oddity = 0;  // how far it is from the others; infinite: it has to be seen
};

struct Chart {
  const CurveGroup* group = nullptr;
  std::vector<NumberLine> lines;
  std::vector<size_t> findings;  // that are about it
  size_t nonfinite = 0;          // values of all ranks
  size_t ranks = 0;
};

size_t nonfinite_in(const NumberCurve& curve) {
  return static_cast<size_t>(std::count_if(curve.values.begin(), curve.values.end(),
                                           [](double value) { return !std::isfinite(value); }));
}

// Also of NaN.
bool is_same(const NumberCurve& a, const NumberCurve& b) {
  return std::equal(
      a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
      [](double x, double y) { return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y); });
}

uint64_t hash_of(const NumberCurve& curve) {
  uint64_t hash = curve.values.size();
  for (const double value : curve.values) {
    hash = (hash ^ std::bit_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

std::vector<NumberLine> lines_of(const CurveGroup& group) {
  std::vector<NumberLine> lines;
  std::multimap<uint64_t, size_t> by_hash;
  for (const NumberCurve& curve : group.curves) {
    const uint64_t hash = hash_of(curve);
    const auto [from, to] = by_hash.equal_range(hash);
    const auto same = std::find_if(
        from, to, [&](const auto& known) { return is_same(*lines[known.second].curve, curve); });
    if (same != to) {
      insert(lines[same->second].ranks, curve.rank);
    } else {
      by_hash.emplace(hash, lines.size());
      lines.push_back({&curve, {curve.rank}});
    }
  }
  return lines;
}

// Of the finite values.
double largest_of(const NumberCurve& curve) {
  double largest = 0;
  for (const double value : curve.values) {
    largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  }
  return largest;
}

double last_of(const NumberCurve& curve) {
  const auto last = std::find_if(curve.values.rbegin(), curve.values.rend(),
                                 [](double value) { return std::isfinite(value); });
  return last == curve.values.rend() ? 0 : *last;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Lines that not all ranks share, and that the others are unlike, come first.
void put_odd_first(const Ranks& named, std::vector<NumberLine>& lines) {
  std::vector<double> largest;
  std::vector<double> last;
  for (const NumberLine& line : lines) {
    largest.push_back(largest_of(*line.curve));
    last.push_back(last_of(*line.curve));
  }
  const double usual_largest = median_of(largest);
  const double usual_last = median_of(last);
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool is_named = std::any_of(lines[i].ranks.begin(), lines[i].ranks.end(),
                                      [&](Rank rank) { return contains(named, rank); });
    lines[i].oddity = is_named || nonfinite_in(*lines[i].curve) != 0
                          ? std::numeric_limits<double>::infinity()
                          : std::abs(largest[i] - usual_largest) + std::abs(last[i] - usual_last);
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const NumberLine& a, const NumberLine& b) { return a.oddity > b.oddity; });
}

// Which of the findings about numbers lie on that line of code.
std::vector<size_t> findings_at(const std::optional<CodePlace>& place,
                                const std::vector<Finding>& findings) {
  std::vector<size_t> at;
  for (size_t i = 0; place && i < findings.size(); ++i) {
    const Finding& finding = findings[i];
    if (finding.code.starts_with("numeric.") &&
        std::any_of(finding.where.begin(), finding.where.end(), [&](const CodePlace& where) {
          return where.file == place->file && where.line == place->line;
        })) {
      at.push_back(i);
    }
  }
  return at;
}

Chart chart_of(const CurveGroup& group, const std::vector<Finding>& findings) {
  Chart chart{&group, lines_of(group), findings_at(group.place, findings), 0, group.curves.size()};
  for (const NumberCurve& curve : group.curves) {
    chart.nonfinite += nonfinite_in(curve);
  }
  Ranks named;
  for (const size_t number : chart.findings) {
    for (const Rank rank : findings[number].culprits) {
      insert(named, rank);
    }
  }
  put_odd_first(named, chart.lines);
  return chart;
}

// What a finding is about first, then what is not finite, then what there is most of.
bool is_shown_before(const Chart& a, const Chart& b) {
  const auto weight = [](const Chart& chart) {
    return std::tuple(!chart.findings.empty(), chart.nonfinite != 0,
                      chart.group->kind == CurveKind::kScalar,
                      chart.lines.front().curve->values.size());
  };
  return weight(a) > weight(b);
}

// JSON has no NaN: as text.
PageJson number_json(double value) {
  return std::isnan(value)   ? PageJson("NaN")
         : std::isinf(value) ? PageJson(value > 0 ? "Inf" : "-Inf")
                             : PageJson(std::strtod(fmt::format("{:.7g}", value).c_str(), nullptr));
}

PageJson line_json(const Run& run, const NumberLine& line, size_t most_points) {
  const std::vector<double>& values = line.curve->values;
  const std::vector<size_t> kept = thinned(values, most_points);
  const auto finite = [&](size_t i) { return std::isfinite(values[i]); };
  PageJson json = {{"ranks", rank_list(line.ranks)},
                   {"count", values.size()},
                   {"begin", page_us(run, line.curve->times.front())},
                   {"end", page_us(run, line.curve->times.back())},
                   {"first", number_json(values.front())},
                   {"last", number_json(values.back())},
                   {"nonfinite", nonfinite_in(*line.curve)},
                   {"v", PageJson::array()}};
  std::optional<size_t> least, largest, nonfinite;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!finite(i)) {
      nonfinite = nonfinite.value_or(i);
      continue;
    }
    least = !least || values[i] < values[*least] ? i : *least;
    largest = !largest || values[i] > values[*largest] ? i : *largest;
  }
  if (least) {
    json["least"] = number_json(values[*least]);
    json["most"] = number_json(values[*largest]);
    json["most_at"] = *largest + 1;
  }
  if (nonfinite) {
    json["nonfinite_at"] = *nonfinite + 1;
    json["nonfinite_us"] = page_us(run, line.curve->times[*nonfinite]);
  }
  for (const size_t i : kept) {
    json["v"].push_back(number_json(values[i]));
  }
  if (kept.size() < values.size()) {
    json["n"] = PageJson::array();
    for (const size_t i : kept) {
      json["n"].push_back(i + 1);
    }
  }
  return json;
}

std::string_view name_of(CurveKind kind) {
  constexpr std::string_view kNames[] = {"scalar", "norm", "nonfinite"};
  return kNames[static_cast<size_t>(kind)];
}

// Ranks of which older values were overwritten: their first one is not that of the others.
Ranks shortened(const Run& run, const std::vector<CurveGroup>& groups) {
  Ranks ranks;
  for (const CurveGroup& group : groups) {
    for (const NumberCurve& curve : group.curves) {
      if (!is_complete(run.processes[curve.process])) {
        insert(ranks, curve.rank);
      }
    }
  }
  return ranks;
}

}  // namespace

PageJson page_numbers(const Run& run, const std::vector<Finding>& findings) {
  if (run.numbers == nullptr) {
    return nullptr;
  }
  const std::vector<CurveGroup> groups = curves_of(run, *run.numbers);
  std::vector<Chart> charts;
  charts.reserve(groups.size());
  for (const CurveGroup& group : groups) {
    charts.push_back(chart_of(group, findings));
  }
  if (charts.empty()) {
    return nullptr;
  }
  std::stable_sort(charts.begin(), charts.end(), is_shown_before);
  const size_t shown = std::min(charts.size(), kMostCharts);
  const size_t most_lines = std::clamp<size_t>(kMostLines / shown, 4, kMostLinesOfChart);
  size_t lines = 0;
  for (size_t i = 0; i < shown; ++i) {
    lines += std::min(charts[i].lines.size(), most_lines);
  }
  const size_t most_points = std::clamp(kMostPointsDrawn / lines, kFewestPoints, kMostPointsOfLine);
  PageJson json = {{"charts", PageJson::array()},
                   {"more_charts", charts.size() - shown},
                   {"shortened", rank_list(shortened(run, groups))}};
  for (size_t i = 0; i < shown; ++i) {
    const Chart& chart = charts[i];
    PageJson own = {{"name", chart.group->name},    {"kind", name_of(chart.group->kind)},
                    {"ranks", chart.ranks},         {"findings", chart.findings},
                    {"nonfinite", chart.nonfinite}, {"lines", PageJson::array()}};
    size_t told = 0;
    for (size_t line = 0; line < std::min(chart.lines.size(), most_lines); ++line) {
      own["lines"].push_back(line_json(run, chart.lines[line], most_points));
      told += chart.lines[line].ranks.size();
    }
    own["more_ranks"] = chart.ranks - told;
    json["charts"].push_back(std::move(own));
  }
  return json;
}

}  // namespace traintrace
