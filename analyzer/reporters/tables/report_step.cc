// How the time of each step divides on each GPU, by the steps that the job marked and by those
// found.
#include <algorithm>
#include <map>
#include <numeric>

#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/timeline/blocking.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/partition.h"
#include "analyzer/timeline/pipeline.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

struct Source {
  const Timeline* timeline;
  int device;
  std::vector<GpuWork> work;  // by start
  const std::optional<PipelineStage>& stage;
  std::optional<Spans> blocking;
};

// What began in it, as it is: each product counts in one step.
std::span<const GpuWork> begun(const std::vector<GpuWork>& work, int64_t begin, int64_t end) {
  const auto before = [](const GpuWork& each, int64_t time) { return each.start_ns < time; };
  const auto first = std::lower_bound(work.begin(), work.end(), begin, before);
  return {first, std::lower_bound(first, work.end(), end, before)};
}

// With what ran before and after, as long as nothing: gaps at both ends have a beginning and an
// end.
std::vector<GpuWork> with_neighbours(const std::vector<GpuWork>& work, int64_t begin, int64_t end) {
  const GpuWork* before = nullptr;
  const GpuWork* after = nullptr;
  for (const GpuWork& each : work) {
    if (each.start_ns >= end) {
      after = &each;
      break;
    }
    if (each.end_ns <= begin && (before == nullptr || each.end_ns >= before->end_ns)) {
      before = &each;
    }
  }
  std::vector<GpuWork> result = work_within(work, {begin, end});
  const auto at = [](GpuWork neighbour, int64_t time) {
    neighbour.start_ns = neighbour.end_ns = time;
    return neighbour;
  };
  if (before != nullptr) {
    result.insert(result.begin(), at(*before, begin));
  }
  if (after != nullptr) {
    result.push_back(at(*after, end));
  }
  return result;
}

// Adds up to `idle_ns`, also where nothing ran yet.
ReportParts idle_parts_of(IdleTimes idle, int64_t idle_ns) {
  idle[static_cast<size_t>(IdleCause::kUnattributed)] +=
      idle_ns - std::accumulate(idle.begin(), idle.end(), int64_t{0});
  return idle_parts(idle);
}

void add_steps(const Source& source, const char* found_by, const std::vector<int64_t>& starts,
               std::optional<int64_t> usual, ReportTable& table) {
  const bool marked = !usual;
  const std::vector<IdleTimes> idle = idle_by_cause(*source.timeline, source.work, starts);
  int64_t end = 0;
  for (const GpuWork& work : source.work) {
    end = std::max(end, work.end_ns);
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t until = i + 1 < starts.size() ? starts[i + 1] : std::max(end, starts[i]);
    const std::vector<GpuWork> work = work_within(source.work, {starts[i], until});
    const TimePartition times = partition_of(work);
    std::vector<ReportCell> row(1);
    if (source.timeline->rank) {
      row[0] = int64_t{*source.timeline->rank};
    }
    row.emplace_back(int64_t{source.device});
    row.emplace_back(std::string(found_by));
    row.emplace_back(marked ? step_number(*source.timeline, i) : static_cast<int64_t>(i));
    const bool has_next = marked && i + 1 < source.timeline->step_starts.size();
    const int64_t duration =
        has_next ? source.timeline->step_starts[i + 1] - source.timeline->step_starts[i]
                 : until - starts[i];
    for (const int64_t ns :
         {starts[i] - starts[0], duration, until - starts[i], static_cast<int64_t>(work.size()),
          times.busy_ns, until - starts[i] - times.busy_ns, times.compute_ns,
          times.communication_ns, times.memory_ns, times.exposed_communication_ns,
          times.exposed_memory_ns}) {
      row.emplace_back(ns);
    }
    row.emplace_back(idle_parts_of(idle[i], until - starts[i] - times.busy_ns));
    row.emplace_back();
    if (usual) {
      row.back() = *usual;
    }
    add_utilisation(utilisation_of(*source.timeline, source.device,
                                   begun(source.work, starts[i], until), until - starts[i]),
                    row);
    row.resize(row.size() + 2);
    if (source.blocking) {
      row[row.size() - 2] = common_ns(*source.blocking, {{starts[i], until}});
    }
    if (source.stage) {
      row.back() = bubble_ns(*source.timeline, *source.stage,
                             with_neighbours(source.work, starts[i], until));
    }
    row.emplace_back(source.timeline->source);
    table.rows.push_back(std::move(row));
  }
}

}  // namespace

ReportTable report_by_step(std::span<const Timeline> timelines) {
  ReportTable table{"step",
                    {"rank",
                     "device",
                     "found_by",
                     "step",
                     "start_ns",
                     "duration_ns",
                     "gpu_duration_ns",
                     "work_count",
                     "busy_ns",
                     "idle_ns",
                     "compute_ns",
                     "communication_ns",
                     "memory_ns",
                     "exposed_communication_ns",
                     "exposed_memory_ns",
                     "idle_by_cause_ns",
                     "usual_ns",
                     "gemm_flops",
                     "mfu_percent",
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
    const std::optional<StepPeriod> period = find_step_period(*timeline);
    for (auto& [device, work] : by_device) {
      std::optional<Spans> blocking = blocking_communication(*timeline, work);
      const Source source{timeline, device, std::move(work),
                          stages[static_cast<size_t>(timeline - timelines.data())],
                          std::move(blocking)};
      if (!timeline->step_starts.empty()) {
        add_steps(source, "marks", steps_on_device(*timeline, device), std::nullopt, table);
      }
      if (period && period->device == device) {
        add_steps(source, "period", period->starts, period->step_ns, table);
      }
    }
  }
  return table;
}

}  // namespace traintrace
