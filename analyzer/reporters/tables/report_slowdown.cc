#include "analyzer/reporters/tables/report_slowdown.h"

#include <cmath>

namespace traintrace {
namespace {

ReportCell ratio_cell(double value) {
  constexpr double kWhole = 1e4;
  return ReportDecimal{std::llround(value * kWhole)};
}

ReportCell ns_cell(double seconds) {
  constexpr double kNs = 1e9;
  return int64_t{std::llround(seconds * kNs)};
}

}  // namespace

ReportTable report_slowdown(const Slowdown& slowdown) {
  ReportTable table{
      "slowdown",
      {"of", "name", "slowdown", "recorded_ns", "replayed_ns", "ideal_ns",
       "explained_by_slowest_ranks", "explained_by_last_stage", "step_count", "worker_count"},
      {}};
  std::vector<ReportCell>& job = table.rows.emplace_back();
  job = {std::string("job"),
         ReportCell(),
         ratio_cell(slowdown.job),
         ns_cell(slowdown.recorded_s),
         ns_cell(slowdown.replayed_s),
         ns_cell(slowdown.ideal_s),
         ReportCell(),
         ReportCell(),
         static_cast<int64_t>(slowdown.steps),
         static_cast<int64_t>(slowdown.workers)};
  if (slowdown.by_ranks) {
    job[6] = ratio_cell(*slowdown.by_ranks);
  }
  if (slowdown.by_last_stage) {
    job[7] = ratio_cell(*slowdown.by_last_stage);
  }
  const auto add = [&](const char* of, const std::string& name, double value) {
    std::vector<ReportCell>& row = table.rows.emplace_back(table.columns.size());
    row[0] = std::string(of);
    row[1] = name;
    row[2] = ratio_cell(value);
  };
  for (const Slowdown::Part& stage : slowdown.stages) {
    add("stage", std::to_string(stage.number), stage.slowdown);
  }
  for (const Slowdown::Part& rank : slowdown.ranks) {
    add("rank", std::to_string(rank.number), rank.slowdown);
  }
  for (const auto& [name, value] : slowdown.operations) {
    add("operation", name, value);
  }
  return table;
}

}  // namespace traintrace
