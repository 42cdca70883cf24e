#include "analyzer/match/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "analyzer/model/activity.h"
#include "analyzer/model/idle_host.h"
#include "analyzer/model/sequences.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

constexpr uint64_t kSeed = 0x51ed2701a3b4c5d7ULL;
constexpr size_t kMostStages = 64;  // of a pipeline

// Of one process.
class KeyMaker {
 public:
  explicit KeyMaker(const ProcessTrace& trace) : trace_(trace) {}

  uint64_t key_of(const OperationText& operation, const CommunicatorText& communicator,
                  uint32_t ordinal) {
    uint64_t key = format::mixed(kSeed, ordinal);
    key = format::mixed(key, static_cast<uint64_t>(communicator.size));
    key = format::mixed(key, function_of(operation.call));
    key = format::mixed(key, operation.count);
    key = format::mixed(key, static_cast<uint64_t>(operation.data_type));
    key = format::mixed(key, site(operation.stack));
    return operation.collective
               ? key
               : format::mixed(key, static_cast<uint64_t>(operation.peer) * 2 + operation.receive);
  }

 private:
  uint64_t function_of(uint32_t call) {
    const auto [at, is_new] = functions_.try_emplace(call);
    if (is_new) {
      at->second = format::call_name_hash(call_name(trace_, call).c_str());
    }
    return at->second;
  }

  uint64_t site(uint32_t stack) {
    const auto [at, is_new] = sites_.try_emplace(stack);
    if (is_new) {
      at->second = site_of(trace_, stack);
    }
    return at->second;
  }

  const ProcessTrace& trace_;
  std::unordered_map<uint32_t, uint64_t> functions_, sites_;
};

bool has_messages(const CommunicatorText& text) {
  return std::any_of(text.recent.begin(), text.recent.end(),
                     [](const OperationText& operation) { return !operation.collective; });
}

// Which of its process's communicators it is, in the order in which it created them.  Our own
// traces list them in that order.
uint32_t ordinal_of(const ProcessTrace& trace, size_t element) {
  return is_flight_dump(trace) ? trace.communicators[element].ordinal
                               : static_cast<uint32_t>(element + 1);
}

// It is known in which order the process created its communicators.
bool are_numbered(const ProcessTrace& trace) {
  std::set<uint32_t> ordinals = {0};
  for (size_t i = 0; i < trace.communicators.size(); ++i) {
    if (!ordinals.insert(ordinal_of(trace, i)).second) {
      return false;
    }
  }
  return true;
}

// What a graph replays is not seen call by call.
bool captures(const ProcessTrace& trace) {
  return std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [](const CommunicatorText& text) {
                       return std::any_of(text.recent.begin(), text.recent.end(),
                                          [](const OperationText& operation) {
                                            return (operation.flags & format::kCaptured) != 0;
                                          });
                     });
}

// From then on all that it called is kept.  A ring keeps the newest of all groups, our own tables
// those of each.
TimeNs kept_since(const ProcessTrace& trace) {
  TimeNs since = 0;
  for (const CommunicatorText& text : trace.communicators) {
    if (!is_flight_dump(trace) && !text.recent.empty() && text.recent.front().index != 0) {
      since = std::max(since, text.recent.front().enter);
    }
  }
  return since;
}

// Dumps say the sizes of all groups, our own traces have them.
std::string sizes_of(const ProcessTrace& trace) {
  if (const auto sizes = trace.facts.find("group-sizes"); sizes != trace.facts.end()) {
    return sizes->second;
  }
  std::string sizes;
  for (const CommunicatorText& text : trace.communicators) {
    sizes += fmt::format("{},", text.size);
  }
  return sizes;
}

// The groups that carry messages anywhere, by how their processes count them.
std::set<uint32_t> groups_with_messages(const Run& run) {
  std::set<uint32_t> ordinals;
  for (const ProcessTrace& trace : run.processes) {
    for (size_t i = 0; i < trace.communicators.size(); ++i) {
      if (has_messages(trace.communicators[i])) {
        ordinals.insert(ordinal_of(trace, i));
      }
    }
  }
  return ordinals;
}

// Of one communicator that carries messages: no two of its members run the same program.
bool are_told_apart(const Communicator& communicator, const std::map<Rank, Program>& programs) {
  std::set<uint64_t> roles;
  return std::all_of(
      communicator.members.begin(), communicator.members.end(),
      [&](const Member& member) { return roles.insert(programs.at(member.rank).role).second; });
}

// Stages of a pipeline whose messages go over communicators of two ranks each have the same place
// in all of theirs, but for the first and the last stage: those next to them are told apart by
// that, and so on.
void tell_stages_apart(const Run& run, const std::set<uint32_t>& with_messages,
                       std::map<Rank, Program>& programs) {
  std::vector<const Communicator*> carriers;
  for (const Communicator& communicator : run.communicators) {
    if (std::any_of(communicator.members.begin(), communicator.members.end(),
                    [&](const Member& member) {
                      return with_messages.contains(
                          ordinal_of(run.processes[member.process], member.element));
                    })) {
      carriers.push_back(&communicator);
    }
  }
  for (size_t round = 0; round < kMostStages / 2; ++round) {
    if (std::all_of(carriers.begin(), carriers.end(), [&](const Communicator* communicator) {
          return are_told_apart(*communicator, programs);
        })) {
      return;
    }
    std::map<Rank, uint64_t> roles;
    for (const Communicator* const communicator : carriers) {
      uint64_t all = kSeed;
      for (const Member& member : communicator->members) {
        all = format::mixed(all, programs.at(member.rank).role);
      }
      for (const Member& member : communicator->members) {
        const uint32_t ordinal = ordinal_of(run.processes[member.process], member.element);
        roles[member.rank] += format::mixed(all, ordinal);
      }
    }
    for (const auto& [rank, more] : roles) {
      programs.at(rank).role = format::mixed(programs.at(rank).role, more);
    }
  }
}

void index_collectives(Program& program) {
  for (uint32_t i = 0; i < program.calls.size(); ++i) {
    const Call& call = program.calls[i];
    if (call.operation->collective) {
      program.collectives[call.communicator].push_back(i);
    }
  }
}

}  // namespace

std::vector<Program> programs_of(const Run& run) {
  std::map<Rank, Program> by_rank;
  std::map<Rank, KeyMaker> makers;
  std::map<Rank, TimeNs> since;
  for (const RankState& state : run.ranks) {
    Program& program = by_rank[state.rank];
    program.rank = state.rank;
    program.state = &state;
    const ProcessTrace& trace = trace_of(run, state);
    program.whole = !trace.facts.contains("entries-left-out") && are_numbered(trace) &&
                    !captures(trace) && run.of_process[state.process].size() == 1;
    program.role = format::call_name_hash(sizes_of(trace).c_str());
    since[state.rank] = kept_since(trace);
    makers.emplace(state.rank, KeyMaker(trace_of(run, state)));
  }
  const std::set<uint32_t> with_messages = groups_with_messages(run);
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    for (const Member& member : run.communicators[i].members) {
      const CommunicatorText& text = text_of(run, member);
      Program& program = by_rank.at(member.rank);
      const uint32_t ordinal = ordinal_of(run.processes[member.process], member.element);
      if (with_messages.contains(ordinal)) {
        program.role +=
            format::mixed(format::mixed(kSeed, ordinal), static_cast<uint64_t>(member.local_rank));
      }
      for (const OperationText& operation : text.recent) {
        // Of these there are records only as long as they are not complete.
        if ((operation.flags & format::kUntracked) != 0 || operation.enter < since[member.rank] ||
            (!operation.collective && operation.peer < 0)) {
          continue;
        }
        const uint64_t key = makers.at(member.rank).key_of(operation, text, ordinal);
        program.calls.push_back({key, &operation, static_cast<uint32_t>(i)});
      }
    }
  }
  tell_stages_apart(run, with_messages, by_rank);
  std::vector<Program> programs;
  programs.reserve(by_rank.size());
  for (auto& [rank, program] : by_rank) {
    std::stable_sort(program.calls.begin(), program.calls.end(), [](const Call& a, const Call& b) {
      return a.operation->enter < b.operation->enter;
    });
    index_collectives(program);
    programs.push_back(std::move(program));
  }
  return programs;
}

const Program* program_of(const std::vector<Program>& programs, Rank rank) {
  const auto at =
      std::lower_bound(programs.begin(), programs.end(), rank,
                       [](const Program& program, Rank value) { return program.rank < value; });
  return at != programs.end() && at->rank == rank ? &*at : nullptr;
}

std::optional<size_t> counterpart_of(const Run& run, size_t communicator, Rank other, Rank rank) {
  const Member* const theirs = member_of(run.communicators[communicator], other);
  if (theirs == nullptr || member_of(run.communicators[communicator], rank) != nullptr) {
    return theirs == nullptr ? std::nullopt : std::optional(communicator);
  }
  const uint32_t ordinal = ordinal_of(run.processes[theirs->process], theirs->element);
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Member* const member = member_of(run.communicators[i], rank);
    if (member != nullptr &&
        ordinal_of(run.processes[member->process], member->element) == ordinal) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
