#include "analyzer/match/program.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "analyzer/model/activity.h"
#include "analyzer/model/sequences.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

constexpr uint64_t kSeed = 0x51ed2701a3b4c5d7ULL;

// Of one process.
class KeyMaker {
 public:
  explicit KeyMaker(const ProcessTrace& trace) : trace_(trace) {}

  uint64_t key_of(const OperationText& operation, const CommunicatorText& communicator) {
    uint64_t key = format::mixed(kSeed, communicator.ordinal);
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

// It is known in which order the process created its communicators.
bool are_numbered(const ProcessTrace& trace) {
  std::set<uint32_t> ordinals = {0};
  return std::all_of(
      trace.communicators.begin(), trace.communicators.end(),
      [&](const CommunicatorText& text) { return ordinals.insert(text.ordinal).second; });
}

// The groups that carry messages anywhere, by how their processes count them.
std::set<uint32_t> groups_with_messages(const Run& run) {
  std::set<uint32_t> ordinals;
  for (const ProcessTrace& trace : run.processes) {
    for (const CommunicatorText& text : trace.communicators) {
      if (has_messages(text)) {
        ordinals.insert(text.ordinal);
      }
    }
  }
  return ordinals;
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
  for (const RankState& state : run.ranks) {
    Program& program = by_rank[state.rank];
    program.rank = state.rank;
    program.state = &state;
    const auto& facts = trace_of(run, state).facts;
    program.whole = !facts.contains("entries-left-out") && are_numbered(trace_of(run, state));
    if (const auto sizes = facts.find("group-sizes"); sizes != facts.end()) {
      program.role = format::call_name_hash(sizes->second.c_str());
    }
    makers.emplace(state.rank, KeyMaker(trace_of(run, state)));
  }
  const std::set<uint32_t> with_messages = groups_with_messages(run);
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    for (const Member& member : run.communicators[i].members) {
      const CommunicatorText& text = text_of(run, member);
      Program& program = by_rank.at(member.rank);
      if (with_messages.contains(text.ordinal)) {
        program.role += format::mixed(format::mixed(kSeed, text.ordinal),
                                      static_cast<uint64_t>(member.local_rank));
      }
      for (const OperationText& operation : text.recent) {
        // Of these there are records only as long as they are not complete.
        if ((operation.flags & format::kUntracked) != 0 ||
            (!operation.collective && operation.peer < 0)) {
          continue;
        }
        const uint64_t key = makers.at(member.rank).key_of(operation, text);
        program.calls.push_back({key, &operation, static_cast<uint32_t>(i)});
      }
    }
  }
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
  const uint32_t ordinal = text_of(run, *theirs).ordinal;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Member* const member = member_of(run.communicators[i], rank);
    if (member != nullptr && text_of(run, *member).ordinal == ordinal) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
