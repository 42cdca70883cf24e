#include "analyzer/model/crossed_streams.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// The first collective that a member of the communicator has not finished, if all have entered it.
using Pending = std::map<size_t, uint64_t>;  // by communicator

const OperationText* pending_at(const Run& run, const Member& member, uint64_t sequence) {
  const OperationText* operation = collective_at(text_of(run, member), sequence);
  const ProcessTrace& trace = run.processes[member.process];
  return operation == nullptr || operation->stream == 0 || operation->position == 0 ||
                 operation->position == format::kNeverReached || finished(trace, *operation) ||
                 (operation->flags & format::kEmpty) != 0 ||
                 direction_of(call_name(trace, operation->call)) != Direction::kAllToAll
             ? nullptr
             : operation;
}

uint64_t pending_of_all(const Run& run, const Communicator& communicator) {
  uint64_t first = 0;
  for (const Member& member : communicator.members) {
    for (const OperationText& operation : text_of(run, member).recent) {
      if (operation.collective && (first == 0 || operation.sequence < first) &&
          pending_at(run, member, operation.sequence) == &operation) {
        first = operation.sequence;
      }
    }
  }
  const bool all =
      first != 0 && communicator.absent.empty() &&
      std::all_of(communicator.members.begin(), communicator.members.end(),
                  [&](const Member& member) { return pending_at(run, member, first) != nullptr; });
  return all ? first : 0;
}

// On the member's stream it lies behind the pending operation of another of these communicators.
bool is_behind(const Run& run, size_t index, const Member& member, const Pending& pending) {
  const OperationText& own = *pending_at(run, member, pending.at(index));
  return std::any_of(pending.begin(), pending.end(), [&](const auto& other) {
    const Member* there =
        other.first == index ? nullptr : member_of(run.communicators[other.first], member.rank);
    const OperationText* before = there == nullptr || there->process != member.process
                                      ? nullptr
                                      : pending_at(run, *there, other.second);
    return before != nullptr && before->stream == own.stream && before->position < own.position;
  });
}

bool is_held_up(const Run& run, size_t index, const Pending& pending) {
  const std::vector<Member>& members = run.communicators[index].members;
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return is_behind(run, index, member, pending); });
}

Wait wait_in(const Run& run, size_t index, const Pending& pending) {
  Wait wait;
  wait.communicator = index;
  wait.sequence = pending.at(index);
  for (const Member& member : run.communicators[index].members) {
    const OperationText& own = *pending_at(run, member, wait.sequence);
    if (is_behind(run, index, member, pending)) {
      Awaited& awaited = wait.awaited.emplace_back();
      awaited.rank = member.rank;
      awaited.entered = awaited.held_up = true;
      awaited.moved = text_of(run, member).last;
    } else {
      wait.waiters.push_back(waiter_of(run, member, own.enter, own.stack));
      wait.details = wait.details.enter == 0 ? own : wait.details;
      wait.operation = call_name(run.processes[member.process], wait.details.call);
    }
  }
  return wait;
}

}  // namespace

void add_crossed_waits(const Run& run, std::vector<Wait>& waits) {
  Pending pending;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const uint64_t sequence = pending_of_all(run, run.communicators[i]);
    if (sequence != 0 && run.communicators[i].members.size() > 1) {
      pending[i] = sequence;
    }
  }
  // What nothing holds up will end, and so will what lies behind it.
  for (size_t before = pending.size() + 1; pending.size() < before;) {
    before = pending.size();
    std::erase_if(pending,
                  [&](const auto& entry) { return !is_held_up(run, entry.first, pending); });
  }
  for (const auto& [index, sequence] : pending) {
    Wait wait = wait_in(run, index, pending);
    const bool known = std::any_of(waits.begin(), waits.end(), [&](const Wait& other) {
      return other.communicator == wait.communicator && other.sequence == wait.sequence &&
             other.kind == WaitKind::kCollective;
    });
    if (!known && !wait.waiters.empty()) {
      waits.push_back(std::move(wait));
    }
  }
}

}  // namespace traintrace
