#include "analyzer/model/build_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "analyzer/isolation/stage.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/exchanges.h"
#include "analyzer/model/grouping.h"
#include "analyzer/model/launch_facts.h"
#include "analyzer/model/own_threads.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/rank_assignment.h"
#include "analyzer/model/stalls.h"
#include "analyzer/model/stream_order.h"

namespace traintrace {
namespace {

// As the launcher calls it, else by its start; unlike any other in the input.
std::vector<std::string> name_runs(const std::vector<ProcessTrace>& traces,
                                   const std::vector<RunGroup>& groups) {
  std::vector<std::string> names;
  std::multiset<std::string> used;
  for (const RunGroup& group : groups) {
    names.push_back(launch_name(traces[group.ranks.front()]));
    used.insert(names.back());
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (names[i].empty() || used.count(names[i]) > 1) {
      const TimeNs start = groups[i].start;
      names[i] += fmt::format("{}{}.{:03}", names[i].empty() ? "run-" : "-", start / 1'000'000'000,
                              start / 1'000'000 % 1000);
    }
  }
  // Started in the same millisecond.
  for (size_t i = 0; i < names.size(); ++i) {
    const auto before = std::count(names.begin(), names.begin() + static_cast<long>(i), names[i]);
    names[i] += before == 0 ? "" : fmt::format("-{}", before + 1);
  }
  return names;
}

std::vector<ProcessTrace> take(std::vector<ProcessTrace>& traces,
                               const std::vector<size_t>& which) {
  std::vector<ProcessTrace> taken;
  taken.reserve(which.size());
  for (const size_t i : which) {
    taken.push_back(std::move(traces[i]));
  }
  std::sort(taken.begin(), taken.end(), [](const ProcessTrace& a, const ProcessTrace& b) {
    return std::tie(a.host, a.pid, a.start_time, a.armed, a.source) <
           std::tie(b.host, b.pid, b.start_time, b.armed, b.source);
  });
  return taken;
}

Ending ending_of(const ProcessTrace& trace) {
  if (trace.exit_kind != format::kNotExited) {
    return Ending::kExited;
  }
  if (!trace.running_now) {
    return Ending::kUnknown;
  }
  return *trace.running_now ? Ending::kRunning : Ending::kGone;
}

void describe(Run& run, const RankAssignment& assignment) {
  run.world_size = assignment.world_size;
  for (const RankSeat& seat : assignment.seats) {
    const ProcessTrace& trace = run.processes[seat.process];
    run.ranks.push_back({seat.rank, seat.process, seat.device, ending_of(trace),
                         last_sign_of_life(trace), own_threads(trace, seat)});
  }
  index_ranks(run);
  for (int rank = 0; rank < run.world_size; ++rank) {
    if (state_of(run, {rank}) == nullptr) {
      run.missing.push_back({rank});
    }
  }
  std::set<std::string> hosts;
  for (const ProcessTrace& trace : run.processes) {
    if (!trace.host.empty()) {  // other tools' data may not say it
      hosts.insert(trace.host);
    }
    run.records += trace.records;
    run.live = run.live || ending_of(trace) == Ending::kRunning;
    run.start = run.start == 0 ? trace.armed : std::min(run.start, trace.armed);
    run.end = std::max(run.end, last_sign_of_life(trace));
  }
  run.hosts.assign(hosts.begin(), hosts.end());
}

ReadError no_run(const std::string& message) {
  ReadError error;
  error.message = message;
  error.fatal = true;
  return error;
}

bool has_pending(const Run& run, Rank rank) {
  return std::any_of(
      run.communicators.begin(), run.communicators.end(), [&](const Communicator& communicator) {
        const Member* const member = member_of(communicator, rank);
        if (member == nullptr || communicator.size == 1) {
          return false;
        }
        const auto& recent = text_of(run, *member).recent;
        return std::any_of(recent.begin(), recent.end(), [&](const OperationText& operation) {
          return pending(run, *member, &operation) != nullptr;
        });
      });
}

// Nobody is missing, and yet it does not go on; or who is missing is in something else.
bool may_be_held_by_events(const Run& run) {
  const std::vector<Hang>& hangs = run.waits.hangs;
  return hangs.empty() ? !find_stalls(run).empty()
                       : std::any_of(hangs.begin(), hangs.end(), [&](const Hang& hang) {
                           return hang.fate == Fate::kAlive &&
                                  std::any_of(hang.roots.begin(), hang.roots.end(),
                                              [&](Rank rank) { return has_pending(run, rank); });
                         });
}

// What can be said without one of these is told, though no longer for certain (internal_error.h).
void compare(Run& run, const ReadEvents& read_events) {
  run_stage("model clocks", [&] { find_clock_skew(run); });
  run_stage("model progress", [&] { infer_progress(run); });
  run_stage("model divergences", [&] { run.divergences = find_divergences(run); });
  if (read_events) {
    run_stage("model range of divergences", [&] { narrow_divergences(run, read_events); });
  }
  run_stage("model waits", [&] { run.waits = wait_graph(run); });
  run_stage("model waits for events", [&] {
    if (may_be_held_by_events(run) && find_stream_orders(run, read_events)) {
      run.waits = wait_graph(run);
    }
  });
}

}  // namespace

Result<Run> build_run(std::vector<ProcessTrace> traces, std::vector<ReadError> unreadable,
                      const RunOptions& options) {
  const std::vector<RunGroup> groups = group_runs(traces);
  if (groups.empty()) {
    return no_run("expected the trace of at least one process that used a GPU");
  }
  const std::vector<std::string> names = name_runs(traces, groups);
  const auto chosen =
      options.run.empty() ? names.end() - 1 : std::find(names.begin(), names.end(), options.run);
  if (chosen == names.end()) {
    return no_run(
        fmt::format("there is no run '{}', but: {}", options.run, fmt::join(names, ", ")));
  }
  Run run;
  run.id = *chosen;
  run.hang_after = options.hang_after;
  run.unreadable = std::move(unreadable);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (names[i] != run.id) {
      run.others.push_back(
          {names[i], static_cast<int>(groups[i].ranks.size()), groups[i].start, groups[i].end});
    }
  }
  const RunGroup& group = groups[static_cast<size_t>(chosen - names.begin())];
  run.processes = take(traces, group.ranks);
  const RankAssignment assignment = assign_ranks(run.processes);
  describe(run, assignment);
  merge_communicators(run, assignment.seats);
  compare(run, options.read_events);
  return run;
}

}  // namespace traintrace
