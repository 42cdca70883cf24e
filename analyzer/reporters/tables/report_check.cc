#include "analyzer/reporters/tables/report_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "analyzer/model/elapsed.h"
#include "analyzer/text/values.h"

namespace traintrace {
namespace {

// What one row is about.
struct CheckedSeries {
  const Check* first = nullptr;
  const Check* last = nullptr;
  int64_t operations = 0, elements = 0, nans = 0, infinities = 0;
  double largest = 0;
  double first_norm = 0, last_norm = 0, most_norm = 0;
};

std::string real_text(double number) {
  return fmt::format("{:.7g}", number);
}

int64_t cell_of(uint64_t number) {
  return static_cast<int64_t>(std::min<uint64_t>(number, INT64_MAX));
}

void add_buffer(std::span<const Check> parts, CheckedSeries& series) {
  const WholeTally all = whole(parts);
  series.first_norm = series.operations == 0 ? all.norm() : series.first_norm;
  series.first = series.operations == 0 ? &parts.front() : series.first;
  series.last = &parts.front();
  series.last_norm = all.norm();
  series.most_norm = std::max(series.most_norm, all.norm());
  series.largest = std::max(series.largest, all.largest);
  ++series.operations;
  series.elements = cell_of(static_cast<uint64_t>(series.elements) + all.count);
  series.nans += cell_of(all.nans);
  series.infinities += cell_of(all.infinities);
}

std::vector<ReportCell> cells_of(const Run& run, const Checks& checks,
                                 const CheckedSeries& series) {
  const Check& check = *series.first;
  const Site& site = checks.sites[check.site];
  return {place_text(site.place),
          run.communicators[check.communicator].name,
          operation_name(check.operation),
          data_type_name(check.type),
          int64_t{check.rank.value},
          check.side == format::kCheckedInput ? "input" : "output",
          series.operations,
          series.elements,
          series.nans,
          series.infinities,
          real_text(series.largest),
          real_text(series.first_norm),
          real_text(series.last_norm),
          real_text(series.most_norm),
          elapsed(run.start, check.time),
          elapsed(run.start, series.last->time),
          site.callers};
}

}  // namespace

ReportTable report_by_check(const Run& run, const Checks& checks) {
  using Key = std::tuple<decltype(Site().key()), uint32_t, format::CheckedOperation, int16_t, Rank,
                         format::CheckedSide>;
  std::map<Key, CheckedSeries> series;
  for (const auto& [rank, own] : checks.of_rank) {
    each_buffer(checks, own, [&, rank = rank](std::span<const Check> parts) {
      const Check& first = parts.front();
      add_buffer(parts, series[{checks.sites[first.site].key(), first.communicator, first.operation,
                                first.type, rank, first.side}]);
    });
  }
  ReportTable table{"check",
                    {"place", "communicator", "operation", "type", "rank", "side", "count",
                     "element_count", "nan_count", "inf_count", "largest", "first_norm",
                     "last_norm", "most_norm", "begin_ns", "end_ns", "callers"},
                    {}};
  table.rows.reserve(series.size());
  for (const auto& [key, one] : series) {
    table.rows.push_back(cells_of(run, checks, one));
  }
  return table;
}

}  // namespace traintrace
