#include "analyzer/commands/export_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "analyzer/commands/analyze.h"
#include "analyzer/commands/command.h"
#include "analyzer/commands/sources/gpu_timelines.h"
#include "analyzer/commands/sources/profiled_run.h"
#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/exporters/collapsed.h"
#include "analyzer/model/process/look_up_code.h"

namespace traintrace {
namespace {

Result<std::string> export_profiles(const std::vector<std::string>& files, const MakeExport& make) {
  const Result<ProfiledRun> profiled = read_profiled_run(files);
  if (!profiled) {
    return profiled.error();
  }
  std::vector<ExportedProcess> processes;
  for (const Timeline& timeline : profiled->profile.timelines) {
    const Rank rank{timeline.rank.value_or(0)};
    processes.push_back({fmt::format("rank {}", rank.value), 0, {rank}, nullptr, &timeline});
  }
  return make(processes, find_in_profile(profiled->profile), {});
}

std::vector<ExportedProcess> processes_of(const Run& run, const std::vector<Timeline>& timelines,
                                          const std::vector<CurveGroup>& numbers) {
  std::vector<ExportedProcess> processes;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    ExportedProcess& process = processes.emplace_back();
    process.name = process_label(trace);
    process.pid = trace.pid;
    process.trace = &trace;
    for (const RankState* const state : states_of(run, i)) {
      insert(process.ranks, state->rank);
    }
    const auto own = std::find_if(
        timelines.begin(), timelines.end(),
        [&](const Timeline& timeline) { return contains(process.ranks, Rank{*timeline.rank}); });
    process.numbers = exported_numbers(numbers, i);
    process.timeline = own == timelines.end() ? nullptr : &*own;
  }
  return processes;
}

// What the run has of the events of a native trace may be a choice of them.
class AllEvents {
 public:
  const ProcessTrace* read(const ProcessTrace& tables) {
    Result<ProcessTrace> trace =
        read_trace(tables.source, {.events = true, .booted = tables.booted});
    if (!trace) {
      return &tables;  // text, or another tool's file: all there is
    }
    trace->code = tables.code;
    trace_ = std::make_unique<ProcessTrace>(std::move(*trace));
    return trace_.get();
  }

 private:
  std::unique_ptr<ProcessTrace> trace_;
};

}  // namespace

Result<std::string> export_processes(const std::vector<std::string>& arguments,
                                     const MakeExport& make) {
  if (const std::vector<std::string> files = profiles_alone(arguments); !files.empty()) {
    return export_profiles(files, make);
  }
  const Result<JudgedRun> judged = judge_files(arguments, {});
  if (!judged) {
    return judged.error();
  }
  for (const ReadError& error : judged->run.unreadable) {
    say(error);
  }
  const GpuTimelines own = gpu_timelines_of(judged->run);
  for (const Finding& finding : own.refused) {
    note(finding.title);
  }
  AllEvents events;
  const std::vector<CurveGroup> numbers = judged->run.numbers == nullptr
                                              ? std::vector<CurveGroup>()
                                              : curves_of(judged->run, *judged->run.numbers);
  return make(processes_of(judged->run, own.timelines, numbers), judged->findings,
              [&](const ProcessTrace& tables) { return events.read(tables); });
}

}  // namespace traintrace
