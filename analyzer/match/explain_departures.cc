#include "analyzer/match/explain_departures.h"

#include <algorithm>

#include "analyzer/judge/standing.h"
#include "analyzer/match/departure_divergence.h"
#include "analyzer/match/departures.h"
#include "analyzer/match/repair.h"
#include "analyzer/model/activity.h"
#include "analyzer/model/circles.h"
#include "analyzer/model/elapsed.h"

namespace traintrace {
namespace {

// All that have something unfinished, but for the culprit.
Ranks waiting(const Run& run, const Standings& standings, Rank culprit) {
  Ranks ranks;
  for (const RankState& state : run.ranks) {
    if (state.rank != culprit && standings.frontier(state.rank) != nullptr) {
      insert(ranks, state.rank);
    }
  }
  return ranks;
}

// Where somebody waits: best for that rank.
size_t wait_about(const Run& run, const Standings& standings, Rank rank, const Ranks& victims,
                  WaitGraph& graph) {
  for (size_t i = 0; i < graph.waits.size(); ++i) {
    const auto& awaited = graph.waits[i].awaited;
    if (std::any_of(awaited.begin(), awaited.end(),
                    [&](const Awaited& other) { return other.rank == rank; })) {
      return i;
    }
  }
  const Unit& unit = *standings.frontier(victims.front());
  Wait& wait = graph.waits.emplace_back();
  wait.kind = unit.first().collective ? WaitKind::kCollective
              : unit.first().receive  ? WaitKind::kReceive
                                      : WaitKind::kSend;
  wait.communicator = unit.communicator;
  wait.sequence = unit.first().sequence;
  wait.operation = call_name(run.processes[unit.member->process], unit.first().call);
  wait.details = unit.first();
  wait.waiters = {waiter_of(run, *unit.member, unit.first().enter, unit.first().stack)};
  wait.awaited.push_back({rank});
  return graph.waits.size() - 1;
}

TimeNs longest_wait(const Wait& wait) {
  TimeNs waited = 0;
  for (const Waiter& waiter : wait.waiters) {
    waited = std::max(waited, elapsed(waiter.since, waiter.until));
  }
  return waited;
}

// Calls behind it agree again, as after no other change.  Where streams prove a cycle, two calls
// that changed places are the cycle itself.
bool is_clear(const WaitGraph& graph, const Departure& departure, const Divergence& divergence) {
  if (is_of_messages(divergence.kind)) {
    return true;
  }
  const bool swapped = departure.edit.kind == CallEditKind::kSwapped;
  return departure.edit.matches > 0 && departure.edit.unique &&
         (!swapped || std::none_of(graph.hangs.begin(), graph.hangs.end(), [&](const Hang& hang) {
           return hang.fate == Fate::kCircle && is_all_called(graph.waits, hang);
         }));
}

}  // namespace

void explain_by_departures(const Run& run, DeparturesFrom known, WaitGraph& graph) {
  const std::vector<Program> programs = programs_of(run);
  const std::vector<Departure> departures = departures_of(run, programs);
  if (departures.empty()) {
    return;
  }
  const Standings standings(run);
  for (const Departure& departure : departures) {
    const auto divergence = divergence_of(run, programs, departure);
    const Ranks victims = waiting(run, standings, departure.rank);
    if (!divergence ||
        (known == DeparturesFrom::kStreams && !is_clear(graph, departure, *divergence)) ||
        victims.empty() || !would_free(run, standings, programs, departure)) {
      continue;
    }
    Hang hang;
    hang.roots = {departure.rank};
    hang.victims = victims;
    hang.wait = wait_about(run, standings, departure.rank, victims, graph);
    hang.waited = hang.witnessed = longest_wait(graph.waits[hang.wait]);
    hang.entered = true;
    size_t harmless = 0;
    for (const Divergence& other : run.divergences) {
      harmless += is_harmless(other.kind) ? 1 : 0;
    }
    hang.divergences = {harmless};
    graph.hangs = {hang};
    graph.stalls.clear();
    graph.divergences = {*divergence};
    graph.departed = true;
    return;
  }
}

}  // namespace traintrace
