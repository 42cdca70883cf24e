#include "analyzer/match/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyzer/match/roles.h"
#include "analyzer/model/event_operations.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/sequences.h"
#include "analyzer/thresholds.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

constexpr uint64_t kSeed = 0x51ed2701a3b4c5d7ULL;

// Of one process.
class KeyMaker {
 public:
  explicit KeyMaker(const ProcessTrace& trace) : trace_(trace) {}

  // `exchanges`: all messages of that communicator are parts of all-to-alls, or steps of a ring.
  // Call::without_line.
  uint64_t call_key_of(const OperationText& operation, const CommunicatorText& communicator,
                       uint32_t ordinal, bool exchanges) {
    uint64_t key = format::mixed(kSeed, ordinal);
    key = format::mixed(key, static_cast<uint64_t>(communicator.size));
    key = format::mixed(key, function_of(operation.call));
    key = format::mixed(key, static_cast<uint64_t>(operation.as));
    key = format::mixed(key, operation.count);
    key = format::mixed(key, static_cast<uint64_t>(operation.data_type));
    const uint64_t peer = exchanges ? 0 : static_cast<uint64_t>(operation.peer);
    return operation.collective ? key : format::mixed(key, peer * 2 + operation.receive);
  }

  uint64_t key_of(const OperationText& operation, uint64_t call_key) {
    return format::mixed(call_key, site(operation.stack));
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
    if (!is_fresh_pair(trace, text)) {
      sizes += fmt::format("{},", text.size);
    }
  }
  return sizes;
}

// What is kept of one communicator in the tables: nothing of its event records from there on.
TimeNs in_tables_since(const CommunicatorText& text) {
  return text.recent.empty() ? std::numeric_limits<TimeNs>::max() : text.recent.front().enter;
}

// Collectives of one communicator, or its messages to or from one rank, are numbered in a row.
using Row = std::tuple<size_t, bool, int, bool>;

Row row_of(size_t communicator, const OperationText& operation) {
  return {communicator, operation.collective, operation.collective ? 0 : operation.peer,
          operation.receive};
}

// The oldest of each row that the tables have.
std::map<Row, uint64_t> first_in_tables(const ProcessTrace& trace) {
  std::map<Row, uint64_t> first;
  for (size_t i = 0; i < trace.communicators.size(); ++i) {
    for (const OperationText& operation : trace.communicators[i].recent) {
      if (operation.sequence != 0) {
        first.try_emplace(row_of(i, operation), operation.sequence);
      }
    }
  }
  return first;
}

struct Older {
  std::vector<EventOperation> operations;
  TimeNs since = 0;  // nothing is missing from then on
};

// What event records have that the tables do not, back to where the first is missing.
Older older_of(const ProcessTrace& tables, const ProcessTrace& with_events) {
  constexpr size_t kMost = 4096;
  std::vector<EventOperation> all = newest_event_operations(with_events, kMost);
  std::map<Row, uint64_t> expected = first_in_tables(tables);
  Older older;
  const bool whole = all.size() < kMost && tables.losses.empty();
  older.since = whole || all.empty() ? 0 : all.front().operation.enter;
  while (!all.empty()) {
    EventOperation& newest = all.back();
    const auto known = expected.find(row_of(newest.communicator, newest.operation));
    const bool kept =
        newest.operation.enter >= in_tables_since(tables.communicators[newest.communicator]);
    if (!kept && newest.operation.sequence != 0) {
      if (known != expected.end() && known->second != newest.operation.sequence + 1) {
        older.since = newest.operation.enter + 1;
        break;
      }
      expected[row_of(newest.communicator, newest.operation)] = newest.operation.sequence;
      // So long ago that nobody waits in it, if not by way of what lies behind it.
      newest.operation.flags = format::kLaunched | format::kFinished;
      older.operations.push_back(newest);
    }
    all.pop_back();
  }
  return older;
}

void index_collectives(Program& program) {
  for (uint32_t i = 0; i < program.calls.size(); ++i) {
    const Call& call = program.calls[i];
    if (call.operation->collective) {
      program.collectives[call.communicator].push_back(i);
    }
  }
}

class Programs {
 public:
  explicit Programs(const Run& run) : run_(run), with_messages_(groups_with_messages(run)) {}

  std::vector<Program> make(const ReadEvents& read_events, const Ranks& longer) {
    add_ranks();
    for (auto& [rank, program] : by_rank_) {
      if (contains(longer, rank)) {
        add_older(read_events, program);
      } else {
        program.whole = program.whole && longer.empty();
      }
    }
    for (size_t i = 0; i < run_.communicators.size(); ++i) {
      for (const Member& member : run_.communicators[i].members) {
        add_calls(static_cast<uint32_t>(i), member);
      }
    }
    Roles roles;
    for (const auto& [rank, program] : by_rank_) {
      roles[rank] = program.role;
    }
    tell_roles_apart(run_, with_messages_, roles);
    std::vector<Program> programs;
    programs.reserve(by_rank_.size());
    for (auto& [rank, program] : by_rank_) {
      program.role = roles.at(rank);
      std::stable_sort(
          program.calls.begin(), program.calls.end(),
          [](const Call& a, const Call& b) { return a.operation->enter < b.operation->enter; });
      index_collectives(program);
      programs.push_back(std::move(program));
    }
    return programs;
  }

 private:
  void add_ranks() {
    for (const RankState& state : run_.ranks) {
      Program& program = by_rank_[state.rank];
      program.rank = state.rank;
      program.state = &state;
      const ProcessTrace& trace = trace_of(run_, state);
      program.whole = !trace.facts.contains("entries-left-out") && are_numbered(trace) &&
                      !captures(trace) && run_.of_process[state.process].size() == 1;
      program.role = format::call_name_hash(sizes_of(trace).c_str());
      since_[state.rank] = kept_since(trace);
      makers_.emplace(state.rank, KeyMaker(trace));
    }
  }

  void add_older(const ReadEvents& read_events, Program& program) {
    const ProcessTrace& tables = trace_of(run_, *program.state);
    const ProcessTrace* const events =
        program.whole && !is_flight_dump(tables) ? read_events(tables) : nullptr;
    if (events == nullptr) {
      return;
    }
    Older older = older_of(tables, *events);
    since_[program.rank] = std::min(since_[program.rank], older.since);
    program.older.reserve(older.operations.size());
    for (EventOperation& one : older.operations) {
      program.older.push_back(one.operation);
      older_[{program.rank, one.communicator}].push_back(&program.older.back());
    }
  }

  void add_calls(uint32_t communicator, const Member& member) {
    const CommunicatorText& text = text_of(run_, member);
    Program& program = by_rank_.at(member.rank);
    const uint32_t ordinal = ordinal_of(run_.processes[member.process], member.element);
    const bool exchanges = !with_messages_.contains(ordinal);
    if (!exchanges && !is_fresh_pair(run_.processes[member.process], text)) {
      program.role +=
          format::mixed(format::mixed(kSeed, ordinal), static_cast<uint64_t>(member.local_rank));
    }
    const auto add = [&](const OperationText& operation) {
      // Of these there are records only as long as they are not complete.
      if ((operation.flags & format::kUntracked) == 0 && operation.enter >= since_[member.rank] &&
          (operation.collective || operation.peer >= 0)) {
        KeyMaker& maker = makers_.at(member.rank);
        const uint64_t call_key = maker.call_key_of(operation, text, ordinal, exchanges);
        program.calls.push_back(
            {maker.key_of(operation, call_key), call_key, &operation, communicator});
      }
    };
    const auto older = older_.find({member.rank, member.element});
    if (older != older_.end()) {
      std::for_each(older->second.begin(), older->second.end(),
                    [&](const OperationText* operation) { add(*operation); });
    }
    std::for_each(text.recent.begin(), text.recent.end(), add);
  }

  const Run& run_;
  const std::set<uint32_t> with_messages_;
  std::map<Rank, Program> by_rank_;
  std::map<Rank, KeyMaker> makers_;
  std::map<Rank, TimeNs> since_;
  std::map<std::pair<Rank, size_t>, std::vector<const OperationText*>> older_;  // by element
};

}  // namespace

std::vector<Program> programs_of(const Run& run) {
  return Programs(run).make({}, {});
}

std::vector<Program> longer_programs_of(const Run& run, const ReadEvents& read_events,
                                        const Ranks& ranks) {
  return Programs(run).make(read_events, ranks);
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

int peer_there(const Program& own, size_t communicator, const Call& theirs) {
  std::optional<int> peer;
  for (const Call& call : own.calls) {
    if (call.communicator != communicator || call.operation->collective ||
        call.without_line != theirs.without_line) {
      continue;
    }
    if (peer && *peer != call.operation->peer) {
      return theirs.operation->peer;  // of an all-to-all: with every member
    }
    peer = call.operation->peer;
  }
  return peer.value_or(theirs.operation->peer);
}

}  // namespace traintrace
