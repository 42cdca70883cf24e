// How the time of each rank's GPU divides.
#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/reporters/report_table.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/partition.h"

namespace traintrace {
namespace {

ReportParts parts_of(const IdleTimes& idle) {
  ReportParts parts;
  for (size_t i = 0; i < kIdleCauses; ++i) {
    parts.emplace_back(kIdleCauseNames[i], idle[i]);
  }
  return parts;
}

std::vector<ReportCell> row_of(const Timeline& timeline, int device,
                               const std::vector<GpuWork>& work) {
  const TimePartition times = partition_of(work);
  std::vector<ReportCell> row(1);
  if (timeline.rank) {
    row[0] = int64_t{*timeline.rank};
  }
  row.emplace_back(int64_t{device});
  for (const int64_t ns :
       {times.window_ns, times.busy_ns, times.idle_ns, times.compute_ns, times.communication_ns,
        times.memory_ns, times.exposed_communication_ns, times.exposed_memory_ns}) {
    row.emplace_back(ns);
  }
  row.emplace_back();
  if (const std::optional<int64_t> overlap = times.overlap_percent_e4()) {
    row.back() = ReportDecimal{*overlap};
  }
  row.emplace_back(parts_of(idle_by_cause(timeline, work)));
  row.resize(row.size() + 2);  // a profile of time does not have the peaks of memory
  row.emplace_back(timeline.source);
  return row;
}

}  // namespace

std::vector<const Timeline*> in_order_of_rank(std::span<const Timeline> timelines) {
  std::vector<const Timeline*> ordered;
  for (const Timeline& timeline : timelines) {
    ordered.push_back(&timeline);
  }
  std::sort(ordered.begin(), ordered.end(), [](const Timeline* a, const Timeline* b) {
    return std::tie(a->rank, a->source) < std::tie(b->rank, b->source);
  });
  return ordered;
}

ReportTable report_by_rank(std::span<const Timeline> timelines) {
  ReportTable table{
      "rank",
      {"rank", "device", "window_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns",
       "memory_ns", "exposed_communication_ns", "exposed_memory_ns", "overlap_percent",
       "idle_by_cause_ns", "peak_allocated_bytes", "peak_reserved_bytes", "source"},
      {}};
  for (const Timeline* timeline : in_order_of_rank(timelines)) {
    std::map<int, std::vector<GpuWork>> by_device;
    for (const GpuWork& work : timeline->work) {
      by_device[work.device].push_back(work);
    }
    for (const auto& [device, work] : by_device) {
      table.rows.push_back(row_of(*timeline, device, work));
    }
  }
  return table;
}

}  // namespace traintrace
