#include "analyzer/reporters/tables/report_scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/batches.h"

namespace traintrace {
namespace {

bool is_float(ScalarType type) {
  return type == ScalarType::kFloat32 || type == ScalarType::kFloat64;
}

double number_at(const ScalarSeries& series, size_t index) {
  return number_of(series.type.type, series.values[index], series.bytes);
}

// Of the finite ones; `index` of the first that is not, or the number of values.
struct Extent {
  bool any = false;
  size_t least = 0, most = 0;  // indices
  int64_t nonfinite = 0;
  size_t first_nonfinite = 0;
};

Extent extent_of(const ScalarSeries& series) {
  Extent extent;
  extent.first_nonfinite = series.values.size();
  for (size_t i = 0; i < series.values.size(); ++i) {
    if (is_nonfinite(series.type.type, series.values[i])) {
      extent.first_nonfinite = extent.nonfinite++ == 0 ? i : extent.first_nonfinite;
      continue;
    }
    if (!extent.any || number_at(series, i) < number_at(series, extent.least)) {
      extent.least = i;
    }
    if (!extent.any || number_at(series, i) > number_at(series, extent.most)) {
      extent.most = i;
    }
    extent.any = true;
  }
  return extent;
}

// The course of a series in one line: parts of equal length, each as high as its largest value; `!`
// where one is not finite.
std::string curve(const ScalarSeries& series, const Extent& extent) {
  constexpr std::string_view kLevels = "_.-=^";
  constexpr size_t kParts = 40;
  const size_t count = series.values.size();
  if (!extent.any || series.type.type == ScalarType::kUnknown || count < 2) {
    return "";
  }
  const double least = number_at(series, extent.least);
  const double range = number_at(series, extent.most) - least;
  std::string text;
  const size_t parts = std::min(count, kParts);
  for (size_t part = 0; part < parts; ++part) {
    double level = 0;
    bool finite = true;
    for (size_t i = part * count / parts; i < (part + 1) * count / parts; ++i) {
      finite = finite && !is_nonfinite(series.type.type, series.values[i]);
      level = finite && range > 0 ? std::max(level, (number_at(series, i) - least) / range) : level;
    }
    const auto at = static_cast<size_t>(
        std::lround(std::clamp(level, 0.0, 1.0) * static_cast<double>(kLevels.size() - 1)));
    text += finite ? kLevels[at] : '!';
  }
  return text;
}

std::vector<ReportCell> cells_of(const Run& run, const ScalarSeries& series) {
  const Extent extent = extent_of(series);
  const bool ordered = extent.any && series.type.type != ScalarType::kUnknown;
  std::vector<ReportCell> cells = {
      place_text(series), int64_t{series.rank.value}, std::string(name_of(series.type.type)),
      static_cast<int64_t>(series.bytes), static_cast<int64_t>(series.values.size())};
  cells.emplace_back(text_at(series, 0));
  cells.emplace_back(text_at(series, series.values.size() - 1));
  cells.resize(cells.size() + 2);
  if (ordered) {
    cells[cells.size() - 2] = text_at(series, extent.least);
    cells.back() = text_at(series, extent.most);
  }
  cells.resize(cells.size() + 3);
  if (is_float(series.type.type)) {
    cells[cells.size() - 3] = extent.nonfinite;
    if (extent.nonfinite != 0) {
      cells[cells.size() - 2] = static_cast<int64_t>(extent.first_nonfinite + 1);
      cells.back() = elapsed(run.start, series.times[extent.first_nonfinite]);
    }
  }
  cells.emplace_back(elapsed(run.start, series.times.front()));
  cells.emplace_back(elapsed(run.start, series.times.back()));
  cells.emplace_back(curve(series, extent));
  cells.emplace_back(series.callers);
  cells.emplace_back(run.processes[series.process].source);
  return cells;
}

}  // namespace

ReportTable report_by_scalar(const Run& run, const Numbers& numbers) {
  ReportTable table{"scalar",
                    {"place", "rank", "type", "value_bytes", "count", "first", "last", "least",
                     "most", "nonfinite_count", "first_nonfinite", "first_nonfinite_ns", "begin_ns",
                     "end_ns", "curve", "callers", "source"},
                    {}};
  table.rows.reserve(numbers.scalars.size());
  for (const ScalarSeries& series : numbers.scalars) {
    table.rows.push_back(cells_of(run, series));
  }
  return table;
}

ReportTable report_by_value(const Run& run, const Numbers& numbers) {
  ReportTable table{
      "value", {"place", "rank", "number", "time_ns", "type", "value", "bits", "callers"}, {}};
  for (const ScalarSeries& series : numbers.scalars) {
    for (size_t i = 0; i < series.values.size(); ++i) {
      table.rows.push_back({place_text(series), int64_t{series.rank.value},
                            static_cast<int64_t>(i + 1), elapsed(run.start, series.times[i]),
                            std::string(name_of(series.type.type)), text_at(series, i),
                            scalar_text(ScalarType::kUnknown, series.values[i], series.bytes),
                            series.callers});
    }
  }
  return table;
}

ReportTable report_by_batch(const Run& run, const Numbers& numbers) {
  ReportTable table{"batch",
                    {"place", "rank", "count", "changing_count", "batch_bytes", "most_batch_bytes",
                     "last_hash", "begin_ns", "end_ns", "callers", "source"},
                    {}};
  table.rows.reserve(numbers.batches.size());
  for (const BatchSeries& series : numbers.batches) {
    const auto [least, most] = std::minmax_element(series.sizes.begin(), series.sizes.end());
    table.rows.push_back(
        {place_text(series), int64_t{series.rank.value}, static_cast<int64_t>(series.sizes.size()),
         static_cast<int64_t>(changing_batches(series).size()),
         static_cast<int64_t>(std::min<uint64_t>(*least, INT64_MAX)),
         static_cast<int64_t>(std::min<uint64_t>(*most, INT64_MAX)),
         fmt::format("0x{:016x}", series.hashes.back()), elapsed(run.start, series.times.front()),
         elapsed(run.start, series.times.back()), series.callers,
         run.processes[series.process].source});
  }
  return table;
}

}  // namespace traintrace
