#include "analyzer/model/build_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "analyzer/isolation/stage.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/launch_facts.h"
#include "analyzer/model/own_threads.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/rank_assignment.h"
#include "analyzer/model/stalls.h"
#include "analyzer/model/stream_order.h"

namespace traintrace {
namespace {

void describe(Run& run, const RankAssignment& assignment) {
  run.world_size = assignment.world_size;
  for (const RankSeat& seat : assignment.seats) {
    const ProcessTrace& trace = run.processes[seat.process];
    const Life life = life_of(trace);
    run.ranks.push_back({seat.rank, seat.process, seat.device, life.ending, life.last_seen,
                         own_threads(trace, seat), life});
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
    run.live = run.live || life_of(trace).ending == Ending::kRunning;
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
  run_stage("model waits", [&] {
    run.waits = wait_graph(run);
    if (run.waits.departed) {
      std::erase_if(run.divergences, [](const Divergence& one) { return !is_harmless(one.kind); });
    }
    std::move(run.waits.divergences.begin(), run.waits.divergences.end(),
              std::back_inserter(run.divergences));
  });
  run_stage("model waits for events", [&] {
    if (may_be_held_by_events(run) && find_stream_orders(run, read_events)) {
      run.waits = wait_graph(run);
    }
  });
}

}  // namespace

namespace {

// A folder may hold pointers of several jobs.
bool is_of_run(const Run& run, const ElsewhereTrace& trace) {
  return trace.run_key == 0 ||
         std::any_of(run.processes.begin(), run.processes.end(), [&](const ProcessTrace& process) {
           return process.run_key == 0 || process.run_key == trace.run_key;
         });
}

void take_unreadable(const std::vector<ReadError>& unreadable, Run& run) {
  for (const ReadError& error : unreadable) {
    if (!error.elsewhere) {
      (error.not_begun ? run.not_begun : run.unreadable).push_back(error);
    } else if (is_of_run(run, *error.elsewhere)) {
      run.elsewhere.push_back(*error.elsewhere);
    }
  }
  std::sort(run.elsewhere.begin(), run.elsewhere.end(),
            [](const ElsewhereTrace& a, const ElsewhereTrace& b) {
              return std::tie(a.rank, a.host, a.path) < std::tie(b.rank, b.host, b.path);
            });
}

}  // namespace

Run build_run(RunInput input, const std::vector<ReadError>& unreadable, const RunOptions& options) {
  Run run;
  run.id = std::move(input.about.id);
  run.hang_after = options.hang_after;
  run.processes = std::move(input.processes);
  take_unreadable(unreadable, run);
  const RankAssignment assignment = assign_ranks(run.processes);
  describe(run, assignment);
  merge_communicators(run, assignment.seats);
  compare(run, options.read_events);
  return run;
}

Result<size_t> chosen_run(std::span<const RunInput> inputs, const std::string& id) {
  if (inputs.empty()) {
    return no_run("expected the trace of at least one process that used a GPU");
  }
  std::vector<std::string> names;
  for (const RunInput& input : inputs) {
    names.push_back(input.about.id);
  }
  const auto chosen = id.empty() ? names.end() - 1 : std::find(names.begin(), names.end(), id);
  if (chosen == names.end()) {
    return no_run(fmt::format("there is no run '{}', but: {}", id, fmt::join(names, ", ")));
  }
  return static_cast<size_t>(chosen - names.begin());
}

Result<Run> build_run(std::vector<ProcessTrace> traces, const std::vector<ReadError>& unreadable,
                      const RunOptions& options) {
  std::vector<RunInput> inputs = split_runs(std::move(traces));
  const Result<size_t> chosen = chosen_run(inputs, options.run);
  if (!chosen) {
    return chosen.error();
  }
  Run run = build_run(std::move(inputs[*chosen]), unreadable, options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i != *chosen) {
      run.others.push_back(inputs[i].about);
    }
  }
  return run;
}

}  // namespace traintrace
