#include <algorithm>
#include <set>

#include "analyzer/isolation/stage.h"
#include "analyzer/judge/stages.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/model/process/own_threads.h"
#include "analyzer/model/runs/rank_assignment.h"
#include "analyzer/model/runs/run_clocks.h"

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
    // Text that somebody wrote does not count them.
    run.records += trace.records != 0 ? trace.records : trace.events.size();
    run.live = run.live || life_of(trace).ending == Ending::kRunning;
    run.start = run.start == 0 ? trace.armed : std::min(run.start, trace.armed);
    run.end = std::max(run.end, last_sign_of_life(trace));
  }
  run.hosts.assign(hosts.begin(), hosts.end());
}

}  // namespace

void assemble(Run& run) {
  run_stage("model clocks", [&] { align_clocks_of(run); });
  const RankAssignment assignment = assign_ranks(run.processes);
  describe(run, assignment);
  merge_communicators(run, assignment.seats);
}

Result<Run> assembled_run(std::vector<ProcessTrace> traces) {
  std::vector<RunInput> inputs = split_runs(std::move(traces));
  const Result<size_t> latest = chosen_run(inputs, "");
  if (!latest) {
    return latest.error();
  }
  Run run = load(std::move(inputs[*latest]), {}, {});
  assemble(run);
  return run;
}

}  // namespace traintrace
