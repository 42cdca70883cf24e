#include "analyzer/match/explain_departures.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/judge/frontier/frontier.h"
#include "analyzer/judge/frontier/standing.h"
#include "analyzer/match/departure_divergence.h"
#include "analyzer/match/departures.h"
#include "analyzer/match/repair.h"
#include "analyzer/match/repair_streams.h"
#include "analyzer/model/divergence/left_out.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/waiting/cycles.h"

namespace traintrace {
namespace {

// All that have something unfinished, but for the culprits.
Ranks waiting(const Run& run, const Standings& standings, const Ranks& culprits) {
  Ranks ranks;
  for (const RankState& state : run.ranks) {
    if (!contains(culprits, state.rank) && standings.frontier(state.rank) != nullptr) {
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
  const bool swapped = is_other_place(departure.edit.kind);
  return departure.edit.matches > 0 && departure.edit.unique &&
         (!swapped || std::none_of(graph.hangs.begin(), graph.hangs.end(), [&](const Hang& hang) {
           return hang.fate == Fate::kCycle && is_all_called(graph.waits, hang);
         }));
}

// Those that hold each other up, and some that run the same programs.
Ranks in_question(const Run& run, const std::vector<Program>& programs, const WaitGraph& graph) {
  constexpr size_t kMost = 64;  // the event records of each are read
  constexpr size_t kPartners = 2;
  Ranks roots;
  for (const Hang& hang : graph.hangs) {
    std::for_each(hang.roots.begin(), hang.roots.end(), [&](Rank rank) { insert(roots, rank); });
  }
  Ranks found = roots;
  const auto role_of = [&](Rank rank) {
    const Program* const program = program_of(programs, rank);
    return program == nullptr ? std::nullopt : std::optional(program->role);
  };
  for (const Communicator& communicator : run.communicators) {
    for (size_t i = 0; i < communicator.members.size(); ++i) {
      const Rank rank = communicator.members[i].rank;
      size_t partners = contains(roots, rank) ? 0 : kPartners;
      for (size_t next = 1; next < communicator.members.size() && partners < kPartners; ++next) {
        const Rank other = communicator.members[(i + next) % communicator.members.size()].rank;
        if (role_of(other) == role_of(rank)) {
          insert(found, other);
          ++partners;
        }
      }
    }
  }
  std::erase_if(found, [&](Rank rank) { return program_of(programs, rank) == nullptr; });
  if (found.size() > kMost) {
    found.resize(kMost);
  }
  return found;
}

// What a rank without a trace called is not known.  One that waits for it and departed from the
// ranks that run the same program may be the one that went wrong.
void doubt_untraced(const std::vector<Departure>& departures, WaitGraph& graph) {
  for (Hang& hang : graph.hangs) {
    hang.alone = hang.alone && (hang.fate != Fate::kUntraced ||
                                std::none_of(departures.begin(), departures.end(),
                                             [&](const Departure& departure) {
                                               return contains(hang.victims, departure.rank);
                                             }));
  }
}

// One that others wait for, and that waits inside a call that does not tell for whom.
bool is_held_up_there(const Hang& hang) {
  return hang.fate == Fate::kAlive && hang.blocked;
}

// Of a collective, of which as many did the one as the other: a call that one of them never made
// before may be the next thing that both have to do, in an evaluation or a new epoch.
bool is_tie_of_collectives(const Run& run, const WaitGraph& graph) {
  return std::any_of(graph.hangs.begin(), graph.hangs.end(), [&](const Hang& hang) {
    return is_held_up_there(hang) ||
           std::any_of(hang.divergences.begin(), hang.divergences.end(), [&](size_t index) {
             const Divergence& one = divergence_at(run, graph, index);
             return one.tie && !is_of_messages(one.kind);
           });
  });
}

// It is known who parted from the others, though not by which call: the hang stays what it is.
void blame_parted(const Departure& departure, const Ranks& victims, WaitGraph& graph) {
  const bool about_it = std::all_of(graph.hangs.begin(), graph.hangs.end(), [&](const Hang& hang) {
    return hang.divergences.empty() &&
           (hang.fate == Fate::kCycle
                ? contains(hang.roots, departure.rank)
                : is_held_up_there(hang) && hang.roots == Ranks{departure.rank});
  });
  if (!about_it) {
    return;
  }
  for (Hang& hang : graph.hangs) {
    hang.twins = departure.twins;
    hang.by_habit = departure.told == DepartureTold::kByHabit;
    if (hang.fate == Fate::kCycle) {
      hang.culprits = {departure.rank};
    } else {
      hang.blocked = false;
      hang.victims = victims;
    }
  }
}

// It and the ranks that made the same calls as it and departed in the same way, as those of one
// stage do that split its work between them.
std::vector<Departure> with_those_alike(const std::vector<Program>& programs,
                                        const std::vector<Departure>& departures,
                                        const Departure& departure) {
  const auto keys_of = [&](const Departure& one) {
    return std::pair(program_of(programs, one.rank)->calls[one.at].key,
                     program_of(programs, one.twin)->calls[one.twin_at].key);
  };
  std::vector<Departure> all = {departure};
  std::copy_if(
      departures.begin(), departures.end(), std::back_inserter(all), [&](const Departure& other) {
        return contains(departure.alike, other.rank) && other.told == departure.told &&
               other.edit.kind == departure.edit.kind &&
               other.edit.length == departure.edit.length && keys_of(other) == keys_of(departure);
      });
  return all;
}

Ranks ranks_of(const std::vector<Departure>& departures) {
  Ranks ranks;
  for (const Departure& departure : departures) {
    insert(ranks, departure.rank);
  }
  return ranks;
}

// Several did it.
Divergence divergence_of_all(Divergence one, const Departure& departure, const Ranks& ranks) {
  one.deviants = ranks;
  one.parts = {ranks};
  std::erase_if(one.others, [&](Rank rank) { return contains(ranks, rank); });
  if (one.others.empty()) {
    one.others = departure.twins;
  }
  return one;
}

// Another rank that its call is with parted too, from ranks of its own and in the same way.
bool is_with_another(const Run& run, const std::vector<Program>& programs,
                     const std::vector<Departure>& departures, const Departure& departure) {
  const Call& call = program_of(programs, departure.rank)->calls[departure.at];
  return std::any_of(departures.begin(), departures.end(), [&](const Departure& other) {
    return other.rank != departure.rank && other.edit.kind == departure.edit.kind &&
           other.told == departure.told &&
           member_of(run.communicators[call.communicator], other.rank) != nullptr;
  });
}

// Others that it holds up, and that hold it up, or that it calls with, parted too, from ranks of
// their own: as a rule they did so together, and none of them alone is wrong.
bool parted_together(const Run& run, const std::vector<Program>& programs, const WaitGraph& graph,
                     const std::vector<Departure>& departures, const Departure& departure) {
  return is_with_another(run, programs, departures, departure) ||
         std::any_of(graph.hangs.begin(), graph.hangs.end(), [&](const Hang& hang) {
           return hang.fate == Fate::kCycle && contains(hang.roots, departure.rank) &&
                  std::any_of(departures.begin(), departures.end(), [&](const Departure& other) {
                    return other.rank != departure.rank && contains(hang.roots, other.rank);
                  });
         });
}

// How many messages the rank at `peer` there has issued to the other that one of it would meet.
size_t answers_of(const Run& run, size_t communicator, Rank rank, const OperationText& message) {
  const Communicator& there = run.communicators[communicator];
  const Member* const own = member_of(there, rank);
  const Member* const peer = member_at(there, message.peer);
  if (own == nullptr || peer == nullptr) {
    return 0;
  }
  const auto& recent = text_of(run, *peer).recent;
  return static_cast<size_t>(
      std::count_if(recent.begin(), recent.end(), [&](const OperationText& other) {
        return !other.collective && other.receive != message.receive &&
               other.peer == own->local_rank;
      }));
}

// A message on another communicator than its twin's, where its peer has issued more of the other
// side than the twin's peer has: the two parted together, and neither alone is wrong.
bool is_answered_elsewhere(const Run& run, const std::vector<Program>& programs,
                           const Departure& departure) {
  const Program& own = *program_of(programs, departure.rank);
  const Program& twin = *program_of(programs, departure.twin);
  if (departure.edit.kind != CallEditKind::kChanged || departure.at >= own.calls.size() ||
      departure.twin_at >= twin.calls.size()) {
    return false;
  }
  const Call& call = own.calls[departure.at];
  const auto expected =
      counterpart_of(run, twin.calls[departure.twin_at].communicator, twin.rank, own.rank);
  if (call.operation->collective || expected == call.communicator) {
    return false;
  }
  const auto theirs = counterpart_of(run, call.communicator, own.rank, twin.rank);
  return answers_of(run, call.communicator, own.rank, *call.operation) >
         (theirs ? answers_of(run, *theirs, twin.rank, *call.operation) : 0);
}

// It is the only root.
void blame(const Run& run, const Standings& standings, const Ranks& ranks,
           const Divergence& divergence, const Ranks& victims, WaitGraph& graph) {
  Hang hang;
  hang.roots = ranks;
  hang.victims = victims;
  hang.wait = wait_about(run, standings, ranks.front(), victims, graph);
  hang.waited = hang.witnessed = longest_wait(graph.waits[hang.wait]);
  hang.entered = true;
  size_t harmless = 0;
  for (const Divergence& other : run.divergences) {
    harmless += is_harmless(other.kind) ? 1 : 0;
  }
  hang.divergences = {harmless};
  graph.hangs = {hang};
  graph.stalls.clear();
  graph.divergences = {divergence};
  graph.departed = true;
}

// What was called in one communicator looks as if that call had been left out, or made in excess;
// its twin's program, of all communicators, says that it came in another place.
bool is_moved_call(const std::vector<Program>& programs, const Departure& departure,
                   const Divergence& divergence) {
  const Program& own = *program_of(programs, departure.rank);
  const Program& twin = *program_of(programs, departure.twin);
  const Call& sooner = own.calls[departure.at];
  const Call& expected = twin.calls[departure.twin_at];
  // Of calls that look alike it is not known which was left out, or made in excess.
  const auto is_there = [&](const Call& call) {
    return call.operation->sequence >= divergence.sequence &&
           call.operation->sequence <= divergence.sequence_last;
  };
  return is_other_place(departure.edit.kind) && !divergence.tie &&
         divergence.deviants == Ranks{departure.rank} &&
         ((divergence.kind == DivergenceKind::kSkipped &&
           expected.communicator == divergence.communicator && is_there(expected)) ||
          (divergence.kind == DivergenceKind::kExtra &&
           (sooner.communicator == divergence.communicator ||
            expected.communicator == divergence.communicator) &&
           (is_there(sooner) || is_there(expected))));
}

// Each called otherwise than all other members of some communicator.
Ranks lone_deviants(const Run& run) {
  Ranks ranks;
  for (const Divergence& one : run.divergences) {
    if (!one.tie && !is_harmless(one.kind) && one.deviants.size() == 1) {
      insert(ranks, one.deviants.front());
    }
  }
  return ranks;
}

// That rank is all that the others lack, and it waits in something else: what it called instead of
// what they did tells more than what is missing there.
bool tells_more(const Run& run, const WaitGraph& graph, const Departure& departure,
                const Divergence& divergence) {
  return departure.told == DepartureTold::kByMajority &&
         std::all_of(graph.hangs.begin(), graph.hangs.end(),
                     [&](const Hang& hang) {
                       return hang.fate == Fate::kAlive && !hang.blocked &&
                              hang.roots == Ranks{departure.rank};
                     }) &&
         std::none_of(run.divergences.begin(), run.divergences.end(), [&](const Divergence& one) {
           return !is_harmless(one.kind) &&
                  (one.tie || one.kind == divergence.kind || one.deviants != Ranks{departure.rank});
         });
}

// It called what was expected there too, only later: that is no new thing that both have to do.
bool is_seen_elsewhere(const std::vector<Program>& programs, const Departure& departure) {
  return is_other_place(departure.edit.kind) && departure.edit.unique &&
         departure.edit.matches > 0 &&
         departure.at + departure.edit.length < program_of(programs, departure.rank)->calls.size();
}

bool explain_by(Run& run, DeparturesFrom known, const std::vector<Program>& programs,
                WaitGraph& graph) {
  const std::vector<Departure> departures = departures_of(run, programs);
  if (departures.empty()) {
    return false;
  }
  const Standings standings(run);
  StreamRepairs repairs(run);
  for (const Departure& departure : departures) {
    if ((departure.told == DepartureTold::kByHabit && !is_seen_elsewhere(programs, departure) &&
         is_tie_of_collectives(run, graph)) ||
        parted_together(run, programs, graph, departures, departure) ||
        is_answered_elsewhere(run, programs, departure)) {
      continue;
    }
    const auto divergence = divergence_of(run, programs, departure);
    const Ranks victims = waiting(run, standings, {departure.rank});
    const Freed freed = !divergence || victims.empty() ? Freed::kNobody
                        : known == DeparturesFrom::kStreams
                            ? repairs.freed_by(programs, departure)
                            : freed_by_repair(run, standings, programs, {departure});
    const std::vector<Departure> together = with_those_alike(programs, departures, departure);
    if (known == DeparturesFrom::kOrder && freed != Freed::kAll && together.size() > 1 &&
        divergence && freed_by_repair(run, standings, programs, together) != Freed::kNobody) {
      const Ranks ranks = ranks_of(together);
      blame(run, standings, ranks, divergence_of_all(*divergence, departure, ranks),
            waiting(run, standings, ranks), graph);
      return true;
    }
    if (freed == Freed::kNobody) {
      continue;
    }
    if (known == DeparturesFrom::kStreams && !is_clear(graph, departure, *divergence)) {
      const bool is_known =
          departure.told == DepartureTold::kByMajority ||
          (departure.told == DepartureTold::kByHabit && is_seen_elsewhere(programs, departure));
      if (departures.size() == 1 && is_known && freed == Freed::kAll) {
        blame_parted(departure, victims, graph);
      }
      continue;
    }
    blame(run, standings, {departure.rank}, *divergence, victims, graph);
    return true;
  }
  doubt_untraced(departures, graph);
  return false;
}

}  // namespace

void explain_by_departures(Run& run, DeparturesFrom known, const ReadEvents& read_events,
                           WaitGraph& graph) {
  const std::vector<Program> programs = programs_of(run);
  const bool explained = explain_by(run, known, programs, graph);
  if (known == DeparturesFrom::kOrder || !read_events) {
    return;
  }
  if (!explained) {
    explain_by(run, known, longer_programs_of(run, read_events, in_question(run, programs, graph)),
               graph);
  }
  for (Divergence& divergence : graph.divergences) {
    take_for_left_out(run, read_events, divergence);
  }
}

void correct_by_departures(Run& run, const ReadEvents& read_events, WaitGraph& graph) {
  const std::vector<Program> programs = programs_of(run);
  const Standings standings(run);
  StreamRepairs repairs(run);
  for (const Departure& departure : departures_of(run, programs, lone_deviants(run))) {
    auto divergence = divergence_of(run, programs, departure);
    if (divergence && read_events) {
      take_for_left_out(run, read_events, *divergence);
    }
    const Ranks victims = waiting(run, standings, {departure.rank});
    if (!divergence || victims.empty() || !departure.edit.unique || departure.edit.matches == 0) {
      continue;
    }
    const bool told =
        std::any_of(run.divergences.begin(), run.divergences.end(),
                    [&](const Divergence& one) { return is_moved_call(programs, departure, one); });
    if ((told || tells_more(run, graph, departure, *divergence)) &&
        repairs.freed_by(programs, departure) != Freed::kNobody) {
      blame(run, standings, {departure.rank}, *divergence, victims, graph);
      return;
    }
  }
}

}  // namespace traintrace
