#include "analyzer/commands/sources/profiled_run.h"

#include <algorithm>
#include <map>

#include "analyzer/commands/sources/profile_windows.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/importers/strange_files.h"
#include "analyzer/reader/files/opened_inputs.h"
#include "analyzer/reader/files/read_stage.h"
#include "analyzer/text/progress.h"

namespace traintrace {
namespace {

ProcessTrace process_of(const KinetoTrace& trace) {
  ProcessTrace process;
  process.source = trace.timeline.source;
  process.facts["source"] = "kineto";
  const ProfileBounds bounds = bounds_of(trace.timeline);
  process.armed = bounds.start;
  process.last_alive = bounds.end;
  process.records = trace.events;
  process.errors = trace.errors;
  return process;
}

ProfiledRun run_of(std::vector<ProfileWindow> windows, std::vector<ReadError> unreadable) {
  ProfiledRun result;
  ProfileWindow& window = windows.back();
  std::vector<Timeline> timelines;
  std::map<std::string, ProcessTrace> processes;
  for (KinetoTrace& trace : window.traces) {
    processes[trace.timeline.source] = process_of(trace);
    timelines.push_back(std::move(trace.timeline));
  }
  result.profile = build_profile(std::move(timelines));
  Run& run = result.run;
  run.id = window.name;
  run.world_size = result.profile.world_size;
  run.unreadable = std::move(unreadable);
  for (const Timeline& timeline : result.profile.timelines) {
    ProcessTrace& process = processes[timeline.source];
    run.start = run.processes.empty() ? process.armed : std::min(run.start, process.armed);
    run.end = std::max(run.end, process.last_alive);
    run.records += process.records;
    run.ranks.push_back(
        {{*timeline.rank}, run.processes.size(), -1, Ending::kUnknown, process.last_alive});
    run.processes.push_back(std::move(process));
  }
  index_ranks(run);
  const bool all_known = std::none_of(
      result.profile.timelines.begin(), result.profile.timelines.end(),
      [](const Timeline& timeline) { return timeline.rank_from == RankSource::kNobody; });
  for (int rank = 0; rank < run.world_size && all_known; ++rank) {
    if (state_of(run, {rank}) == nullptr) {
      run.missing.push_back({rank});
    }
  }
  windows.pop_back();
  for (const ProfileWindow& other : windows) {
    run.others.push_back(
        {other.name, static_cast<int>(other.traces.size()), other.start, other.start});
  }
  return result;
}

// Leaves the window that --run names as the last; false: there is none.
bool choose(std::vector<ProfileWindow>& windows, const std::string& name) {
  if (name.empty()) {
    return true;
  }
  const auto chosen =
      std::find_if(windows.begin(), windows.end(),
                   [&](const ProfileWindow& window) { return window.name == name; });
  if (chosen == windows.end()) {
    return false;
  }
  std::rotate(chosen, chosen + 1, windows.end());
  return true;
}

}  // namespace

ReadError without_gpu_work(const std::string& file) {
  ReadError none;
  none.file = file;
  const std::string kind = strange_profile_text(file);
  none.message = kind.empty() ? "expected kernels or copies of a GPU: there are none" : kind;
  return none;
}

Result<ProfiledRun> read_profiled_run(const std::vector<std::string>& files,
                                      const std::string& name) {
  std::vector<KinetoTrace> traces;
  std::vector<ReadError> unreadable;
  Progress progress(files);
  for (const std::string& file : files) {
    progress.next();
    std::vector<KinetoTrace> ranks(1);
    read_stage(file, ranks.front().errors, [&] { ranks = read_kineto_ranks(file); });
    for (KinetoTrace& trace : ranks) {
      if (trace.timeline.work.empty()) {
        if (trace.errors.empty() || !trace.errors.back().internal) {
          trace.errors.push_back(without_gpu_work(file));
        }
        std::move(trace.errors.begin(), trace.errors.end(), std::back_inserter(unreadable));
      } else {
        remember_input(file);
        traces.push_back(std::move(trace));
      }
    }
  }
  if (traces.empty()) {
    return unreadable.front();
  }
  std::vector<ProfileWindow> windows = windows_of(std::move(traces));
  if (!choose(windows, name)) {
    ReadError none;
    none.message = "there is no run '" + name + "', but: ";
    for (const ProfileWindow& window : windows) {
      none.message += (&window == windows.data() ? "" : ", ") + window.name;
    }
    return none;
  }
  return run_of(std::move(windows), std::move(unreadable));
}

}  // namespace traintrace
