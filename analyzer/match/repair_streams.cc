#include "analyzer/match/repair_streams.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analyzer/judge/block.h"
#include "analyzer/match/repaired_calls.h"
#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// What is numbered in a row: the collectives of a communicator, its messages to or from one rank.
using RepairedRow = std::tuple<size_t, bool, bool, int>;

RepairedRow row_of(const OperationText& operation, size_t communicator) {
  return {communicator, operation.collective, !operation.collective && operation.receive,
          operation.collective ? -1 : operation.peer};
}

bool is_numbered(const OperationText& operation) {
  return operation.sequence != 0;
}

// The trace of the rank with the calls that it should have made.
class RepairedTrace {
 public:
  RepairedTrace(const Run& run, const std::vector<Program>& programs, const Departure& departure)
      : run_(run),
        own_(*program_of(programs, departure.rank)),
        departure_(departure),
        trace_(run.processes[own_.state->process]) {}

  ProcessTrace take() { return std::move(trace_); }

  void apply(const Queue& queue) {
    std::vector<TimeNs> entered;
    std::map<RepairedRow, uint64_t> next;
    std::map<RepairedRow, int64_t> change;
    for (size_t i = 0; i < own_.calls.size(); ++i) {
      const Call& call = own_.calls[i];
      const RepairedRow row = row_of(*call.operation, call.communicator);
      if (i < departure_.at) {
        next[row] = is_numbered(*call.operation) ? call.operation->sequence + 1 : 0;
        continue;
      }
      next.try_emplace(row, call.operation->sequence);
      entered.push_back(call.operation->enter);
      --change[row];
    }
    std::map<size_t, std::vector<OperationText>> by_element;
    for (size_t i = 0; i < queue.size(); ++i) {
      OperationText operation = *queue[i].operation;
      if (queue[i].added) {
        make_own(queue[i], entered.front(), operation);
      }
      if (queue.size() == entered.size()) {
        operation.enter = entered[i];
      }
      const RepairedRow row = row_of(operation, queue[i].communicator);
      uint64_t& number = next.try_emplace(row, 1).first->second;
      operation.sequence = number;
      number += number != 0 ? 1 : 0;
      ++change[row];
      by_element[element_of(queue[i].communicator)].push_back(operation);
      edited_.push_back({queue[i].communicator, operation});
    }
    replace_calls(by_element);
    for (const auto& [row, by] : change) {
      count(row, by);
    }
  }

  // In one of these others gave something else.
  bool is_at_odds() const {
    return std::any_of(edited_.begin(), edited_.end(), [&](const auto& edited) {
      const Communicator& communicator = run_.communicators[edited.first];
      return is_numbered(edited.second) &&
             (edited.second.collective ? differs_from_others(communicator, edited.second)
                                       : differs_from_peer(communicator, edited.second));
    });
  }

 private:
  size_t element_of(size_t communicator) const {
    return member_of(run_.communicators[communicator], own_.rank)->element;
  }

  // As the rank would have called what its twin did.
  void make_own(const Issued& issued, TimeNs enter, OperationText& operation) {
    const ProcessTrace& twins = run_.processes[issued.process];
    if (operation.call < twins.calls.size()) {  // else it has no name there, and none here
      operation.call = call_of(call_name(twins, operation.call), twins.calls[operation.call]);
    }
    operation.stack = 0;
    operation.enter = enter - 1;
    operation.leave = enter;
    operation.completed = 0;
    operation.peer = issued.peer;
    operation.group = issued.group;
    operation.position = 0;
    operation.gpu = GpuState::kUnknown;
    operation.flags &= static_cast<uint8_t>(~(format::kFinished | format::kLaunched));
    operation.stream = 0;
    const auto& recent = trace_.communicators[element_of(issued.communicator)].recent;
    for (const OperationText& other : recent) {
      const bool alike = row_of(other, 0) == row_of(operation, 0);
      operation.stream = alike || operation.stream == 0 ? other.stream : operation.stream;
    }
  }

  uint32_t call_of(const std::string& name, const CallSchema& schema) {
    for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
      if (call_name(trace_, call) == name) {
        return call;
      }
    }
    trace_.calls.push_back(schema);
    return static_cast<uint32_t>(trace_.calls.size() - 1);
  }

  void replace_calls(std::map<size_t, std::vector<OperationText>>& by_element) {
    std::set<const OperationText*> gone;
    for (size_t i = departure_.at; i < own_.calls.size(); ++i) {
      gone.insert(own_.calls[i].operation);
      by_element[element_of(own_.calls[i].communicator)];
    }
    for (auto& [element, operations] : by_element) {
      const auto& before = run_.processes[own_.state->process].communicators[element].recent;
      for (const OperationText& operation : before) {
        if (!gone.contains(&operation)) {
          operations.push_back(operation);
        }
      }
      std::stable_sort(
          operations.begin(), operations.end(),
          [](const OperationText& a, const OperationText& b) { return a.enter < b.enter; });
      uint64_t index = before.empty() ? 0 : before.front().index;
      for (OperationText& operation : operations) {
        operation.index = index++;
      }
      trace_.communicators[element].recent = std::move(operations);
    }
  }

  // One of the rank's rows has that many more, or fewer.
  void count(const RepairedRow& row, int64_t by) {
    const auto& [communicator, collective, receive, peer] = row;
    const auto more = static_cast<uint64_t>(by);  // wraps
    CommunicatorText& text = trace_.communicators[element_of(communicator)];
    text.operations += more;
    if (collective) {
      text.collectives += more;
      return;
    }
    const auto element = static_cast<uint32_t>(element_of(communicator) + 1);
    for (PeerText& other : trace_.peers) {
      if (other.communicator == element && other.receive == receive && other.peer == peer) {
        other.operations += more;
        return;
      }
    }
    trace_.peers.push_back({element, receive, peer, more, 0, 0});
  }

  bool is_alike(const OperationText& own, const ProcessTrace& trace,
                const OperationText& other) const {
    return call_name(trace_, own.call) == call_name(trace, other.call) &&
           (own.data_type < 0 || other.data_type < 0 ||
            (own.data_type == other.data_type && own.count == other.count));
  }

  bool differs_from_others(const Communicator& communicator, const OperationText& own) const {
    return std::any_of(
        communicator.members.begin(), communicator.members.end(), [&](const Member& member) {
          const OperationText* const other =
              member.rank == own_.rank ? nullptr
                                       : collective_at(text_of(run_, member), own.sequence);
          return other != nullptr && !is_alike(own, run_.processes[member.process], *other);
        });
  }

  bool differs_from_peer(const Communicator& communicator, const OperationText& own) const {
    const Member* const member = member_of(communicator, own_.rank);
    const Member* const peer = member_at(communicator, own.peer);
    if (peer == nullptr || peer == member) {
      return false;
    }
    const auto& theirs = text_of(run_, *peer).recent;
    return std::any_of(theirs.begin(), theirs.end(), [&](const OperationText& other) {
      return !other.collective && other.receive != own.receive &&
             other.peer == member->local_rank && other.sequence == own.sequence &&
             size_key(other) != size_key(own);
    });
  }

  const Run& run_;
  const Program& own_;
  const Departure& departure_;
  ProcessTrace trace_;
  std::vector<std::pair<size_t, OperationText>> edited_;
};

// For as long as it lives, the run is one in which that rank called what it should have.
class Exchanged {
 public:
  Exchanged(Run& run, size_t process, Rank rank, ProcessTrace trace)
      : run_(run), process_(process), trace_(std::move(trace)), divergences_(run.divergences) {
    std::swap(run_.processes[process_], trace_);
    std::erase_if(run_.divergences, [&](const Divergence& one) {
      return member_of(run_.communicators[one.communicator], rank) != nullptr;
    });
  }
  ~Exchanged() {
    std::swap(run_.processes[process_], trace_);
    run_.divergences = std::move(divergences_);
  }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  Run& run_;
  const size_t process_;
  ProcessTrace trace_;
  std::vector<Divergence> divergences_;
};

Ranks waiters_of(const std::vector<Wait>& waits) {
  Ranks ranks;
  for (const Wait& wait : waits) {
    for (const Waiter& waiter : wait.waiters) {
      insert(ranks, waiter.rank);
    }
  }
  return ranks;
}

// Of those that still wait, the ones that wait for a rank which waits itself, or which the repair
// did not free: a host that is free may go on, and call what they wait for.
Ranks stuck_in(const std::vector<Wait>& waits, const Ranks& freed) {
  Ranks free = freed;
  const Ranks waiting = waiters_of(waits);
  Ranks stuck = waiting;
  for (size_t before = stuck.size() + 1; stuck.size() < before;) {
    before = stuck.size();
    std::erase_if(stuck, [&](Rank rank) {
      const bool held = std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
        return std::any_of(wait.waiters.begin(), wait.waiters.end(),
                           [&](const Waiter& waiter) { return waiter.rank == rank; }) &&
               !std::all_of(wait.awaited.begin(), wait.awaited.end(),
                            [&](const Awaited& awaited) { return contains(free, awaited.rank); });
      });
      if (!held) {
        insert(free, rank);
      }
      return !held;
    });
  }
  return stuck;
}

}  // namespace

const Ranks& StreamRepairs::waiting_unrepaired() {
  if (!waiting_) {
    std::vector<Divergence> divergences = run_.divergences;  // some are dropped on the way
    waiting_ = waiters_of(waits_in(run_));
    run_.divergences = std::move(divergences);
  }
  return *waiting_;
}

Freed StreamRepairs::freed_by(const std::vector<Program>& programs, const Departure& departure) {
  const auto queue = repaired_calls(run_, programs, departure);
  if (!queue) {
    return Freed::kNobody;
  }
  RepairedTrace repaired(run_, programs, departure);
  repaired.apply(*queue);
  if (repaired.is_at_odds()) {
    return Freed::kNobody;
  }
  const Ranks& before = waiting_unrepaired();
  const Program& own = *program_of(programs, departure.rank);
  const Exchanged exchanged(run_, own.state->process, departure.rank, repaired.take());
  const std::vector<Wait> after = waits_in(run_);
  Ranks freed = {departure.rank};
  const Ranks waiting = waiters_of(after);
  for (const Rank rank : before) {
    if (!contains(waiting, rank)) {
      insert(freed, rank);
    }
  }
  const Ranks stuck = stuck_in(after, freed);
  const bool none_new = std::includes(before.begin(), before.end(), stuck.begin(), stuck.end());
  return stuck.empty()                              ? Freed::kAll
         : none_new && stuck.size() < before.size() ? Freed::kSome
                                                    : Freed::kNobody;
}

}  // namespace traintrace
