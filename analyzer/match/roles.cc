#include "analyzer/match/roles.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/judge/frontier/standing.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/sequences.h"
#include "analyzer/thresholds.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

constexpr uint64_t kRoleSeed = 0x6b21f09d84c3e715ULL;
constexpr size_t kMostStages = 64;  // of a pipeline

size_t messages_done(const ProcessTrace& trace, const CommunicatorText& text) {
  return static_cast<size_t>(
      std::count_if(text.recent.begin(), text.recent.end(), [&](const OperationText& operation) {
        return !operation.collective && !is_unfinished(trace, operation);
      }));
}

// By how many places a step of a ring goes on: a message to one member, and one from the member as
// far on the other side.  None: it is no such step.
std::optional<int> ring_step(const Communicator& communicator, const CommunicatorText& text,
                             const OperationText& operation) {
  constexpr int kLeast = 3;  // of two, each stage of a pipeline exchanges messages with the other
  int to = -1;
  int from = -1;
  for (const OperationText* const other : group_of(text, operation)) {
    int& peer = other->receive ? from : to;
    if (other->collective || peer >= 0) {
      return std::nullopt;
    }
    peer = other->peer;
  }
  const int size = communicator.size;
  if (to < 0 || from < 0 || size < kLeast) {
    return std::nullopt;
  }
  const int step = (to - text.rank + size) % size;
  return step != 0 && step == (text.rank - from + size) % size ? std::optional(step) : std::nullopt;
}

// Messages that are no part of an all-to-all, or of a ring that goes one way, in which all members
// do the same.  What is kept of the first group may be its end only.
bool has_messages(const Communicator& communicator, const CommunicatorText& text) {
  uint32_t seen =
      text.recent.empty() || text.recent.front().index == 0 ? 0 : text.recent.front().group;
  std::optional<int> ring;
  return std::any_of(text.recent.begin(), text.recent.end(), [&](const OperationText& operation) {
    if (operation.collective || (operation.group != 0 && operation.group == seen)) {
      return false;
    }
    seen = operation.group;
    if (is_exchange(communicator, text, operation)) {
      return false;
    }
    const auto step = ring_step(communicator, text, operation);
    const bool goes_on = step && (!ring || step == ring);
    ring = step;
    return !goes_on;
  });
}

// The groups of messages that are kept of a communicator whole.
std::vector<std::vector<const OperationText*>> message_groups(const CommunicatorText& text) {
  std::vector<std::vector<const OperationText*>> groups;
  const bool begins_within = !text.recent.empty() && text.recent.front().index != 0;
  uint32_t last = begins_within ? text.recent.front().group : 0;
  bool is_open = false;
  for (const OperationText& operation : text.recent) {
    if (operation.collective || (operation.group != 0 && operation.group == last && !is_open)) {
      continue;
    }
    if (operation.group == 0 || operation.group != last) {
      groups.emplace_back();
    }
    groups.back().push_back(&operation);
    last = operation.group;
    is_open = true;
  }
  return groups;
}

// Of two members: all that each does is to exchange a message with the other.
bool only_exchanges(const ProcessTrace& trace, const CommunicatorText& text,
                    std::set<uint64_t>& sites) {
  const auto groups = message_groups(text);
  for (const auto& group : groups) {
    if (group.size() != 2 || group[0]->receive == group[1]->receive ||
        group[0]->count != group[1]->count) {
      return false;
    }
    sites.insert(site_of(trace, group[0]->stack));
  }
  return groups.size() >= kHabitTimes;
}

// A ring of two, as context parallelism has: both exchange messages from the same lines of code.
bool is_ring_of_two(const Run& run, const Communicator& communicator) {
  std::vector<std::set<uint64_t>> sites;
  for (const Member& member : communicator.members) {
    if (communicator.size != 2 || !only_exchanges(run.processes[member.process],
                                                  text_of(run, member), sites.emplace_back())) {
      return false;
    }
  }
  return sites.size() == 2 && sites[0] == sites[1];
}

// It sends a message to a next stage, or gets one, and nothing the other way: as pipelines do when
// a step begins or ends, and no ring.
bool has_one_way(const CommunicatorText& text) {
  const auto groups = message_groups(text);
  return std::any_of(groups.begin(), groups.end(), [](const auto& group) {
    return std::all_of(group.begin(), group.end(), [&](const OperationText* other) {
      return other->receive == group.front()->receive;
    });
  });
}

// Those that carry messages, but for one that a message to a wrong peer made.
std::vector<const Communicator*> carriers_of(const Run& run,
                                             const std::set<uint32_t>& with_messages) {
  std::vector<const Communicator*> carriers;
  for (const Communicator& communicator : run.communicators) {
    if (std::any_of(communicator.members.begin(), communicator.members.end(),
                    [&](const Member& member) {
                      const ProcessTrace& trace = run.processes[member.process];
                      return with_messages.contains(ordinal_of(trace, member.element)) &&
                             !is_fresh_pair(trace, text_of(run, member));
                    })) {
      carriers.push_back(&communicator);
    }
  }
  return carriers;
}

// Of one communicator that carries messages: no two of its members run the same program.
bool are_told_apart(const Communicator& communicator, const Roles& roles) {
  std::set<uint64_t> seen;
  return std::all_of(
      communicator.members.begin(), communicator.members.end(),
      [&](const Member& member) { return seen.insert(roles.at(member.rank)).second; });
}

// Each by those that it exchanges messages with, too.
void refine(const Run& run, const std::vector<const Communicator*>& carriers, Roles& roles) {
  Roles added;
  for (const Communicator* const communicator : carriers) {
    uint64_t all = kRoleSeed;
    for (const Member& member : communicator->members) {
      all = format::mixed(all, roles.at(member.rank));
    }
    for (const Member& member : communicator->members) {
      const uint32_t ordinal = ordinal_of(run.processes[member.process], member.element);
      added[member.rank] += format::mixed(all, ordinal);
    }
  }
  for (const auto& [rank, more] : added) {
    roles.at(rank) = format::mixed(roles.at(rank), more);
  }
}

// Stages of a pipeline whose messages go over communicators of two ranks each have the same place
// in all of theirs, but for the first and the last stage: those next to them are told apart by
// that, and so on.
void tell_stages_apart(const Run& run, const std::vector<const Communicator*>& carriers,
                       Roles& roles) {
  for (size_t round = 0; round < kMostStages / 2; ++round) {
    if (std::all_of(carriers.begin(), carriers.end(), [&](const Communicator* communicator) {
          return are_told_apart(*communicator, roles);
        })) {
      return;
    }
    refine(run, carriers, roles);
  }
}

size_t number_of_roles(const Roles& roles) {
  std::set<uint64_t> seen;
  for (const auto& [rank, role] : roles) {
    seen.insert(role);
  }
  return seen.size();
}

// Until that tells no more apart.
void refine_fully(const Run& run, const std::vector<const Communicator*>& carriers, Roles& roles) {
  size_t known = 0;
  for (size_t round = 0; round < kMostStages && number_of_roles(roles) != known; ++round) {
    known = number_of_roles(roles);
    refine(run, carriers, roles);
  }
}

// Ranks that exchange messages, directly or not: as a rule one pipeline.
struct Pipeline {
  Ranks ranks;
  uint64_t roles = 0;  // of all of them, in any order
  bool whole = true;   // each left a trace
};

std::vector<Pipeline> pipelines_of(const std::vector<const Communicator*>& carriers,
                                   const Roles& roles) {
  std::map<Rank, Rank> leaders;
  const auto leader_of = [&](Rank rank) {
    while (leaders.at(rank) != rank) {
      rank = leaders.at(rank);
    }
    return rank;
  };
  for (const Communicator* const communicator : carriers) {
    for (const Member& member : communicator->members) {
      leaders.try_emplace(member.rank, member.rank);
      leaders[leader_of(member.rank)] = leader_of(communicator->members.front().rank);
    }
  }
  std::map<Rank, Pipeline> by_leader;
  for (const auto& [rank, unused] : leaders) {
    Pipeline& pipeline = by_leader[leader_of(rank)];
    insert(pipeline.ranks, rank);
    pipeline.roles += format::mixed(kRoleSeed, roles.at(rank));
  }
  for (const Communicator* const communicator : carriers) {
    if (static_cast<int>(communicator->members.size()) < communicator->size) {
      by_leader.at(leader_of(communicator->members.front().rank)).whole = false;
    }
  }
  std::vector<Pipeline> pipelines;
  pipelines.reserve(by_leader.size());
  for (auto& [leader, pipeline] : by_leader) {
    pipelines.push_back(std::move(pipeline));
  }
  return pipelines;
}

// Where ranks created their communicators in orders of their own, two of different stages may look
// alike by chance: the pipelines they are in do not.  One of which a trace is missing may be any.
void tell_pipelines_apart(const Run& run, const std::vector<const Communicator*>& carriers,
                          Roles& roles) {
  Roles full = roles;
  refine_fully(run, carriers, full);
  const std::vector<Pipeline> pipelines = pipelines_of(carriers, full);
  std::map<uint64_t, size_t> times;
  for (const Pipeline& pipeline : pipelines) {
    times[pipeline.roles] += pipeline.whole ? 1 : 0;
  }
  const auto most = std::max_element(
      times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const Pipeline& pipeline : pipelines) {
    for (const Rank rank : pipeline.ranks) {
      roles.at(rank) = format::mixed(roles.at(rank), pipeline.whole ? pipeline.roles : most->first);
    }
  }
}

}  // namespace

uint32_t ordinal_of(const ProcessTrace& trace, size_t element) {
  return is_flight_dump(trace) ? trace.communicators[element].ordinal
                               : static_cast<uint32_t>(element + 1);
}

bool is_fresh_pair(const ProcessTrace& trace, const CommunicatorText& text) {
  return text.size == 2 && text.collectives == 0 &&
         (text.recent.empty() || text.recent.front().index == 0) &&
         messages_done(trace, text) == 0 &&
         std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [&](const CommunicatorText& other) {
                       return other.size == 2 && messages_done(trace, other) >= kHabitTimes;
                     });
}

std::set<uint32_t> groups_with_messages(const Run& run) {
  std::set<uint32_t> ordinals;
  std::set<uint32_t> one_way;
  std::set<uint32_t> no_rings;
  for (const Communicator& communicator : run.communicators) {
    const bool is_ring = is_ring_of_two(run, communicator);
    for (const Member& member : communicator.members) {
      const CommunicatorText& text = text_of(run, member);
      if (!has_messages(communicator, text)) {
        continue;
      }
      const uint32_t ordinal = ordinal_of(run.processes[member.process], member.element);
      ordinals.insert(ordinal);
      if (!is_ring) {
        no_rings.insert(ordinal);
      }
      if (has_one_way(text)) {
        one_way.insert(ordinal);
      }
    }
  }
  // In the middle of a step two stages of a pipeline may look like that ring: what tells is that
  // the pipeline is another group.
  if (!one_way.empty()) {
    std::erase_if(ordinals, [&](uint32_t ordinal) { return !no_rings.contains(ordinal); });
  }
  return ordinals;
}

void tell_roles_apart(const Run& run, const std::set<uint32_t>& with_messages, Roles& roles) {
  const std::vector<const Communicator*> carriers = carriers_of(run, with_messages);
  tell_stages_apart(run, carriers, roles);
  tell_pipelines_apart(run, carriers, roles);
}

}  // namespace traintrace
