// Recorded numbers as counters.  A counter cannot show what is not finite: there the last value
// stays, and a slice on a track beside it lasts until the next finite one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/exporters/perfetto.h"

namespace traintrace {
namespace {

struct Point {
  TimeNs time;
  double value;
};

// By time: several threads of a process may have fetched them.
std::vector<Point> points_of(const NumberCurve& curve) {
  std::vector<Point> points;
  points.reserve(curve.values.size());
  for (size_t i = 0; i < curve.values.size(); ++i) {
    points.push_back({curve.times[i], curve.values[i]});
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const Point& a, const Point& b) { return a.time < b.time; });
  return points;
}

std::string_view nonfinite_text(double value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "Inf" : "-Inf";
}

// From the first value that is not finite to the next one that is; open: there is none.
std::vector<PerfettoSlice> nonfinite_slices(const std::vector<Point>& points) {
  std::vector<PerfettoSlice> slices;
  size_t length = 0;
  const auto close = [&](TimeNs end) {
    if (length != 0) {
      slices.back().end = end;
      slices.back().notes = {{"values", std::to_string(length)}};
      length = 0;
    }
  };
  for (const Point& point : points) {
    if (std::isfinite(point.value)) {
      close(point.time);
      continue;
    }
    if (length++ == 0) {
      slices.push_back(
          {point.time, PerfettoSlice::kOpen, std::string(nonfinite_text(point.value)), {}});
    }
  }
  close(PerfettoSlice::kOpen);
  return slices;
}

}  // namespace

std::vector<ExportedNumbers> exported_numbers(const std::vector<CurveGroup>& groups,
                                              size_t process) {
  std::vector<ExportedNumbers> numbers;
  for (const CurveGroup& group : groups) {
    for (const NumberCurve& curve : group.curves) {
      if (curve.process == process) {
        numbers.push_back({&group.name, &curve});
      }
    }
  }
  return numbers;
}

void add_numbers(const ExportedProcess& process, uint64_t track, PerfettoWriter& out) {
  for (const ExportedNumbers& numbers : process.numbers) {
    const std::string name =
        process.ranks.size() > 1
            ? fmt::format("rank {}: {}", numbers.curve->rank.value, *numbers.name)
            : *numbers.name;
    const std::vector<Point> points = points_of(*numbers.curve);
    uint64_t counter = 0;
    for (const Point& point : points) {
      if (std::isfinite(point.value)) {
        counter = counter != 0 ? counter : out.counter(name, track);
        out.count_real(counter, point.time, point.value);
      }
    }
    if (std::vector<PerfettoSlice> slices = nonfinite_slices(points); !slices.empty()) {
      out.slices(name + ": NaN or Inf", track, std::move(slices));
    }
  }
}

}  // namespace traintrace
