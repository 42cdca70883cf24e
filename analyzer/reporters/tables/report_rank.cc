// How the time of each rank's GPU divides.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/timeline/blocking.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/partition.h"
#include "analyzer/timeline/pipeline.h"
#include "analyzer/timeline/products/utilisation.h"

namespace traintrace {
namespace {

std::vector<ReportCell> row_of(const Timeline& timeline, int device,
                               const std::vector<GpuWork>& work,
                               const std::optional<PipelineStage>& stage) {
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
  row.emplace_back(idle_parts(idle_by_cause(timeline, work)));
  add_utilisation(utilisation_of(timeline, device, work, times.window_ns), row);
  row.resize(row.size() + 2);  // the peaks of memory: add_peaks
  const Spans profiling = united(timeline.profiling);
  row.emplace_back(window_within(work, profiling));
  row.emplace_back(idle_within(work, profiling));
  row.resize(row.size() + 2);
  if (const std::optional<Spans> blocking = blocking_communication(timeline, work)) {
    row[row.size() - 2] = length_ns(*blocking);
  }
  if (stage) {
    row.back() = bubble_ns(timeline, *stage, work);
  }
  row.emplace_back(timeline.source);
  return row;
}

size_t column_of(const ReportTable& table, std::string_view name) {
  return static_cast<size_t>(std::find(table.columns.begin(), table.columns.end(), name) -
                             table.columns.begin());
}

std::vector<ReportCell>& row_for(const RankPeak& peak, ReportTable& table) {
  const ReportCell rank(int64_t{peak.rank});
  const ReportCell device(int64_t{peak.peak.device});
  const auto found = std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return row[0] == rank && row[1] == device;
  });
  if (found != table.rows.end()) {
    return *found;
  }
  std::vector<ReportCell>& row = table.rows.emplace_back(table.columns.size());
  row.front() = rank;
  row[1] = device;
  row.back() = peak.source;
  return row;
}

void put(const std::optional<uint64_t>& bytes, ReportCell& cell) {
  if (bytes) {
    cell = static_cast<int64_t>(
        std::min<uint64_t>(*bytes, uint64_t{std::numeric_limits<int64_t>::max()}));
  }
}

}  // namespace

ReportParts idle_parts(const IdleTimes& idle) {
  ReportParts parts;
  for (size_t i = 0; i < kIdleCauses; ++i) {
    parts.emplace_back(kIdleCauseNames[i], idle[i]);
  }
  return parts;
}

void add_peaks(std::span<const RankPeak> peaks, ReportTable& table) {
  const size_t allocated = column_of(table, "peak_allocated_bytes");
  const size_t reserved = column_of(table, "peak_reserved_bytes");
  for (const RankPeak& peak : peaks) {
    std::vector<ReportCell>& row = row_for(peak, table);
    put(peak.peak.allocated, row[allocated]);
    put(peak.peak.reserved, row[reserved]);
  }
}

void add_utilisation(const Utilisation& used, std::vector<ReportCell>& row) {
  row.resize(row.size() + 2);
  if (used.gemm_flops) {
    row[row.size() - 2] = *used.gemm_flops;
  }
  if (used.mfu_percent_e4) {
    row.back() = ReportDecimal{*used.mfu_percent_e4};
  }
}

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
  ReportTable table{"rank",
                    {"rank",
                     "device",
                     "window_ns",
                     "busy_ns",
                     "idle_ns",
                     "compute_ns",
                     "communication_ns",
                     "memory_ns",
                     "exposed_communication_ns",
                     "exposed_memory_ns",
                     "overlap_percent",
                     "idle_by_cause_ns",
                     "gemm_flops",
                     "mfu_percent",
                     "peak_allocated_bytes",
                     "peak_reserved_bytes",
                     "profiler_ns",
                     "profiler_idle_ns",
                     "blocking_communication_ns",
                     "pipeline_bubble_ns",
                     "source"},
                    {}};
  const std::vector<std::optional<PipelineStage>> stages = find_stages(timelines);
  for (const Timeline* timeline : in_order_of_rank(timelines)) {
    std::map<int, std::vector<GpuWork>> by_device;
    for (const GpuWork& work : timeline->work) {
      by_device[work.device].push_back(work);
    }
    for (const auto& [device, work] : by_device) {
      table.rows.push_back(row_of(*timeline, device, work,
                                  stages[static_cast<size_t>(timeline - timelines.data())]));
    }
  }
  return table;
}

}  // namespace traintrace
