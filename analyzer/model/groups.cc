#include "analyzer/model/groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/sequences.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_grouped(const OperationText& operation) {
  return (operation.flags & format::kGrouped) != 0;
}

// Where groups have no numbers: neighbours, as long as no peer occurs twice.
std::vector<const OperationText*> neighbours_of(const CommunicatorText& communicator,
                                                const OperationText& operation) {
  std::vector<const OperationText*> group;
  std::set<std::pair<bool, int>> peers;
  for (const OperationText& other : communicator.recent) {
    if (!is_grouped(other) || other.collective ||
        !peers.insert({other.receive, other.peer}).second) {
      if (std::find(group.begin(), group.end(), &operation) != group.end()) {
        return group;
      }
      group.clear();
      peers = {{other.receive, other.peer}};
    }
    if (is_grouped(other) && !other.collective) {
      group.push_back(&other);
    }
  }
  return group;
}

bool has_open_group(const ThreadText& thread) {
  return thread.group_depth > 0 && thread.open[1].enter == 0;
}

}  // namespace

std::vector<const OperationText*> group_of(const CommunicatorText& communicator,
                                           const OperationText& operation) {
  if (!is_grouped(operation)) {
    return {&operation};
  }
  if (operation.group == 0) {
    return neighbours_of(communicator, operation);
  }
  std::vector<const OperationText*> group;
  for (const OperationText& other : communicator.recent) {
    if (other.group == operation.group) {
      group.push_back(&other);
    }
  }
  return group;
}

bool may_be_one_group(const OperationText& a, const OperationText& b) {
  return a.group == b.group && (a.group != 0 || (a.flags & b.flags & format::kGrouped) != 0);
}

bool is_exchange(const Communicator& communicator, const CommunicatorText& text,
                 const OperationText& operation) {
  std::set<int> sent;
  std::set<int> received;
  bool with_itself = false;
  for (const OperationText* other : group_of(text, operation)) {
    if (!other->collective) {
      (other->receive ? received : sent).insert(other->peer);
      with_itself = with_itself || other->peer == text.rank;
    }
  }
  sent.erase(text.rank);
  received.erase(text.rank);
  const auto others = static_cast<size_t>(std::max(communicator.size - 1, 0));
  const auto is_most = [&](size_t count) { return count >= kManyPeers || 3 * count > 2 * others; };
  return (others > 1 || with_itself) && is_most(sent.size()) && is_most(received.size());
}

std::optional<OpenGroup> open_group(const ProcessTrace& trace, const CommunicatorText& text) {
  const auto thread = std::find_if(trace.threads.begin(), trace.threads.end(), has_open_group);
  if (thread == trace.threads.end()) {
    return std::nullopt;
  }
  constexpr uint8_t kOver = format::kLaunched | format::kFailed | format::kUntracked;
  OpenGroup open;
  open.stack = thread->group_stack;
  for (auto at = text.recent.rbegin(); at != text.recent.rend(); ++at) {
    if (!is_grouped(*at) || (at->flags & kOver) != 0 || at->leave == 0) {
      break;
    }
    open.first = &*at;
  }
  return open.first == nullptr ? std::nullopt : std::optional(open);
}

TimeNs last_move(const ProcessTrace& trace, const CommunicatorText& text) {
  const auto open = open_group(trace, text);
  return open ? std::min(open->first->enter, text.last) : text.last;
}

std::optional<UnclosedCall> unclosed_call(const Run& run, const Hang& hang, Rank root) {
  const std::vector<Wait>& waits = run.waits.waits;
  std::vector<size_t> candidates = {hang.wait};
  for (size_t i = 0; i < waits.size(); ++i) {
    const bool awaited =
        std::any_of(waits[i].awaited.begin(), waits[i].awaited.end(),
                    [&](const Awaited& other) { return other.rank == root && !other.entered; });
    if (i != hang.wait && awaited && waits[i].kind != WaitKind::kInit) {
      candidates.push_back(i);
    }
  }
  for (const size_t i : candidates) {
    const Member* const member = member_of(run.communicators[waits[i].communicator], root);
    const auto open = member == nullptr
                          ? std::nullopt
                          : open_group(run.processes[member->process], text_of(run, *member));
    if (open) {
      return UnclosedCall{i, *open};
    }
  }
  return std::nullopt;
}

bool is_group_unclosed(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  // Who failed inside a group left it open because of that.
  const bool by_itself = hang.fate == Fate::kAlive ||
                         (hang.fate == Fate::kExited &&
                          std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
                            return exited_normally(run, *state_of(run, rank));
                          }));
  if (!by_itself || wait.kind == WaitKind::kInit || !hang.divergences.empty()) {
    return false;
  }
  return std::all_of(hang.roots.begin(), hang.roots.end(),
                     [&](Rank rank) { return unclosed_call(run, hang, rank).has_value(); });
}

}  // namespace traintrace
