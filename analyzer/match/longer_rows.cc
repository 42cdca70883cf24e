#include "analyzer/match/longer_rows.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/sequences.h"
#include "analyzer/model/waiting/cycles.h"
#include "analyzer/model/waiting/wait_walk.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Messages with one peer in one direction, between which there are none in the other.
struct MessageRow {
  bool receives = false;
  size_t count = 0;
  const OperationText* last = nullptr;
};

// Of one member with that peer, from the first row that is kept whole.
std::vector<MessageRow> rows_of(const CommunicatorText& text, int peer) {
  std::vector<MessageRow> rows;
  for (const OperationText& operation : text.recent) {
    if (operation.collective || operation.peer != peer) {
      continue;
    }
    if (rows.empty() || rows.back().receives != operation.receive) {
      rows.push_back({operation.receive, 0, nullptr});
    }
    ++rows.back().count;
    rows.back().last = &operation;
  }
  if (!text.recent.empty() && text.recent.front().index != 0 && !rows.empty()) {
    rows.erase(rows.begin());
  }
  return rows;
}

bool are_all_of(size_t count, std::vector<MessageRow>::const_iterator begin,
                std::vector<MessageRow>::const_iterator end) {
  return std::all_of(begin, end, [&](const MessageRow& row) { return row.count == count; });
}

// How many messages were in all rows but the last two, which have one more each; 0: not so.
size_t usual_before_longer(const std::vector<MessageRow>& rows, const OperationText& awaited) {
  if (rows.size() < 2 * kHabitTimes + 2) {
    return 0;
  }
  const MessageRow& received = rows.back();
  const MessageRow& sent = rows[rows.size() - 2];
  const size_t usual = rows.front().count;
  const bool is_longer = received.receives && received.last->index == awaited.index &&
                         sent.count == usual + 1 && received.count == usual + 1;
  return usual > 1 && is_longer && are_all_of(usual, rows.begin(), rows.end() - 2) ? usual : 0;
}

bool awaits_next(const WaitGraph& graph, const Hang& cycle, Rank waiter, Rank sender,
                 const OperationText& sent) {
  return std::any_of(graph.waits.begin(), graph.waits.end(), [&](const Wait& wait) {
    return is_part(wait, cycle.roots) && wait.kind == WaitKind::kReceive &&
           wait.waiters.front().rank == waiter && wait.awaited.front().rank == sender &&
           wait.details.sequence == sent.sequence + 1;
  });
}

std::optional<Divergence> longer_row(const Run& run, const WaitGraph& graph, const Hang& cycle,
                                     const Wait& wait) {
  if (wait.kind != WaitKind::kReceive || wait.waiters.size() != 1) {
    return std::nullopt;
  }
  const Communicator& communicator = run.communicators[wait.communicator];
  const Member* const own = member_of(communicator, wait.waiters.front().rank);
  const Member* const peer = member_at(communicator, wait.details.peer);
  if (own == nullptr || peer == nullptr || own == peer) {
    return std::nullopt;
  }
  const std::vector<MessageRow> rows = rows_of(text_of(run, *own), wait.details.peer);
  const std::vector<MessageRow> theirs = rows_of(text_of(run, *peer), own->local_rank);
  const size_t usual = usual_before_longer(rows, wait.details);
  if (usual == 0 || theirs.empty() || theirs.back().count > usual ||
      !are_all_of(usual, theirs.begin(), theirs.end() - 1)) {
    return std::nullopt;
  }
  const OperationText& extra = *rows[rows.size() - 2].last;
  if (extra.sequence == 0 || !awaits_next(graph, cycle, peer->rank, own->rank, extra)) {
    return std::nullopt;
  }
  Divergence one;
  one.kind = DivergenceKind::kMissingReceive;
  one.communicator = wait.communicator;
  one.sequence = one.sequence_last = one.met = extra.sequence;
  one.own = call_of(run, *own, extra);
  one.expected = {peer->rank, peer->process, {}};
  one.deviants = {own->rank};
  one.parts = {one.deviants};
  one.others = {peer->rank};
  one.complete = run.missing.empty();
  one.by_habit = true;
  one.length = usual + 1;
  return one;
}

}  // namespace

void find_longer_rows(const Run& run, WaitGraph& graph) {
  for (Hang& hang : graph.hangs) {
    for (size_t i = 0; i < graph.waits.size() && hang.divergences.empty(); ++i) {
      const bool is_of_cycle = hang.fate == Fate::kCycle && is_part(graph.waits[i], hang.roots);
      const auto longer = is_of_cycle ? longer_row(run, graph, hang, graph.waits[i]) : std::nullopt;
      if (!longer || !WaitWalk(hang.roots, graph.waits).frees_all(hang.roots, longer->own.rank)) {
        continue;
      }
      hang.wait = i;
      hang.fate = Fate::kAlive;
      hang.roots = longer->deviants;
      hang.culprits.clear();
      hang.entered = true;
      hang.divergences = {run.divergences.size() + graph.divergences.size()};
      graph.divergences.push_back(*longer);
    }
  }
}

}  // namespace traintrace
