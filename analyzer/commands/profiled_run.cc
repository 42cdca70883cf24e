#include "analyzer/commands/profiled_run.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/importers/kineto.h"
#include "analyzer/reader/read_stage.h"
#include "analyzer/text/progress.h"

namespace traintrace {
namespace {

struct Bounds {
  TimeNs start = 0;
  TimeNs end = 0;
};

Bounds bounds_of(const Timeline& timeline) {
  if (timeline.work.empty()) {
    return {};
  }
  Bounds bounds{timeline.work.front().start_ns, 0};
  for (const GpuWork& work : timeline.work) {
    bounds.end = std::max(bounds.end, work.end_ns);
  }
  return {timeline.base_ns + bounds.start, timeline.base_ns + bounds.end};
}

struct Window {
  std::vector<KinetoTrace> traces;
  TimeNs start = 0;
};

bool holds_rank(const Window& window, const KinetoTrace& trace) {
  return std::any_of(window.traces.begin(), window.traces.end(), [&](const KinetoTrace& other) {
    // Without a rank each is a job of its own.
    return !trace.timeline.rank || other.timeline.rank == trace.timeline.rank;
  });
}

// A rank that was recorded twice was recorded in two windows.
std::vector<Window> windows_of(std::vector<KinetoTrace> traces) {
  std::sort(traces.begin(), traces.end(), [](const KinetoTrace& a, const KinetoTrace& b) {
    return std::tuple(bounds_of(a.timeline).start, a.timeline.source) <
           std::tuple(bounds_of(b.timeline).start, b.timeline.source);
  });
  std::vector<Window> windows;
  for (KinetoTrace& trace : traces) {
    if (windows.empty() || holds_rank(windows.back(), trace)) {
      windows.push_back({{}, bounds_of(trace.timeline).start});
    }
    windows.back().traces.push_back(std::move(trace));
  }
  return windows;
}

ProcessTrace process_of(const KinetoTrace& trace) {
  ProcessTrace process;
  process.source = trace.timeline.source;
  process.facts["source"] = "kineto";
  const Bounds bounds = bounds_of(trace.timeline);
  process.armed = bounds.start;
  process.last_alive = bounds.end;
  process.records = trace.events;
  process.errors = trace.errors;
  return process;
}

std::string name_of_window(const Window& window) {
  return "profile-" + std::to_string(window.start / 1'000'000);
}

ProfiledRun run_of(std::vector<Window> windows, std::vector<ReadError> unreadable) {
  ProfiledRun result;
  Window& window = windows.back();
  std::vector<Timeline> timelines;
  std::map<std::string, ProcessTrace> processes;
  for (KinetoTrace& trace : window.traces) {
    processes[trace.timeline.source] = process_of(trace);
    timelines.push_back(std::move(trace.timeline));
  }
  result.profile = build_profile(std::move(timelines));
  Run& run = result.run;
  run.id = name_of_window(window);
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
  for (int rank = 0; rank < run.world_size; ++rank) {
    if (state_of(run, {rank}) == nullptr) {
      run.missing.push_back({rank});
    }
  }
  windows.pop_back();
  for (const Window& other : windows) {
    run.others.push_back(
        {name_of_window(other), static_cast<int>(other.traces.size()), other.start, other.start});
  }
  return result;
}

// Leaves the window that --run names as the last; false: there is none.
bool choose(std::vector<Window>& windows, const std::string& name) {
  if (name.empty()) {
    return true;
  }
  const auto chosen = std::find_if(windows.begin(), windows.end(), [&](const Window& window) {
    return name_of_window(window) == name;
  });
  if (chosen == windows.end()) {
    return false;
  }
  std::rotate(chosen, chosen + 1, windows.end());
  return true;
}

}  // namespace

Result<ProfiledRun> read_profiled_run(const std::vector<std::string>& files,
                                      const std::string& name) {
  std::vector<KinetoTrace> traces;
  std::vector<ReadError> unreadable;
  Progress progress(files);
  for (const std::string& file : files) {
    progress.next();
    KinetoTrace trace;
    read_stage(file, trace.errors, [&] { trace = read_kineto(file); });
    if (trace.timeline.work.empty()) {
      if (trace.errors.empty() || !trace.errors.back().internal) {
        ReadError none;
        none.file = file;
        none.message = "expected kernels or copies of a GPU: there are none";
        trace.errors.push_back(std::move(none));
      }
      std::move(trace.errors.begin(), trace.errors.end(), std::back_inserter(unreadable));
    } else {
      traces.push_back(std::move(trace));
    }
  }
  if (traces.empty()) {
    return unreadable.front();
  }
  std::vector<Window> windows = windows_of(std::move(traces));
  if (!choose(windows, name)) {
    ReadError none;
    none.message = "there is no run '" + name + "', but: ";
    for (const Window& window : windows) {
      none.message += (&window == windows.data() ? "" : ", ") + name_of_window(window);
    }
    return none;
  }
  return run_of(std::move(windows), std::move(unreadable));
}

}  // namespace traintrace
