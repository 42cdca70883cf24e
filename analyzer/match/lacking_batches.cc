#include "analyzer/match/lacking_batches.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/sequences.h"
#include "analyzer/model/waiting/cycles.h"
#include "analyzer/model/waiting/wait_walk.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using Batch = std::vector<const OperationText*>;
using Shape = std::multiset<std::tuple<bool, int, uint64_t>>;  // receives, peer, size

// Those of messages, from the first that is kept whole.
std::vector<Batch> batches_of(const CommunicatorText& text) {
  std::vector<Batch> batches;
  uint32_t last = text.recent.empty() || text.recent.front().index == 0
                      ? 0
                      : text.recent.front().group;  // its beginning may be forgotten
  bool is_kept = false;
  for (const OperationText& operation : text.recent) {
    if (operation.collective) {
      continue;
    }
    if (operation.group == 0 || operation.group != last) {
      batches.emplace_back();
      is_kept = true;
    }
    if (is_kept) {
      batches.back().push_back(&operation);
    }
    last = operation.group;
  }
  return batches;
}

Shape shape_of(const Batch& batch) {
  Shape shape;
  for (const OperationText* const operation : batch) {
    shape.emplace(operation->receive, operation->peer, size_key(*operation));
  }
  return shape;
}

const OperationText* send_to(const Batch& batch, int peer) {
  const auto found = std::find_if(batch.begin(), batch.end(), [&](const OperationText* operation) {
    return !operation->receive && operation->peer == peer;
  });
  return found == batch.end() ? nullptr : *found;
}

// The one batch that lacks a send to `peer`, where all others are alike: there are several before
// it, and some after it, so it is no part that is still being issued, nor how a step begins or
// ends.
std::optional<size_t> lacking_batch(const std::vector<Batch>& batches, int peer) {
  if (batches.size() <= kLeastInCommon) {
    return std::nullopt;
  }
  const Shape full = shape_of(batches.front());
  const OperationText* const send = send_to(batches.front(), peer);
  if (send == nullptr || batches.front().size() < 2) {
    return std::nullopt;
  }
  Shape lacking = full;
  lacking.erase(lacking.find({false, peer, size_key(*send)}));
  std::optional<size_t> found;
  for (size_t i = 0; i < batches.size(); ++i) {
    const Shape shape = shape_of(batches[i]);
    if (shape == full) {
      continue;
    }
    if (found || shape != lacking) {
      return std::nullopt;
    }
    found = i;
  }
  return found && *found >= kHabitTimes && *found + 1 < batches.size() ? found : std::nullopt;
}

// The number that the send would have had which that batch lacks.
uint64_t lacking_number(const std::vector<Batch>& batches, size_t lacking, int peer) {
  return send_to(batches[lacking - 1], peer)->sequence + 1;
}

const OperationText* receive_at(const CommunicatorText& text, int peer, uint64_t number) {
  const auto found =
      std::find_if(text.recent.begin(), text.recent.end(), [&](const OperationText& operation) {
        return !operation.collective && operation.receive && operation.peer == peer &&
               operation.sequence == number;
      });
  return found == text.recent.end() ? nullptr : &*found;
}

// None: that wait has another reason, or it is not known.
std::optional<Divergence> lacking_send(const Run& run, const Wait& wait) {
  if (wait.kind != WaitKind::kReceive || wait.waiters.size() != 1) {
    return std::nullopt;
  }
  const Communicator& communicator = run.communicators[wait.communicator];
  const Member* const receiver = member_of(communicator, wait.waiters.front().rank);
  const Member* const sender = member_at(communicator, wait.details.peer);
  if (receiver == nullptr || sender == nullptr || sender == receiver) {
    return std::nullopt;
  }
  const int peer = receiver->local_rank;
  const std::vector<Batch> batches = batches_of(text_of(run, *sender));
  const auto lacking = lacking_batch(batches, peer);
  if (!lacking) {
    return std::nullopt;
  }
  const OperationText* const last = send_to(batches.back(), peer);
  const uint64_t number = lacking_number(batches, *lacking, peer);
  const OperationText* const awaited =
      receive_at(text_of(run, *receiver), wait.details.peer, number);
  if (last->sequence == 0 || last->sequence + 1 != wait.details.sequence || awaited == nullptr) {
    return std::nullopt;
  }
  Divergence one;
  one.kind = DivergenceKind::kMissingSend;
  one.communicator = wait.communicator;
  one.sequence = one.sequence_last = one.met = number;
  one.own = {sender->rank, sender->process, {}};
  one.own.item.operation.stack = batches[*lacking].front()->stack;
  one.expected = call_of(run, *receiver, *awaited);
  one.deviants = {sender->rank};
  one.parts = {one.deviants};
  one.others = {receiver->rank};
  one.matches = batches.size() - 1 - *lacking;
  one.complete = run.missing.empty();
  one.by_habit = true;
  return one;
}

bool is_of_hang(const WaitGraph& graph, size_t wait, const Hang& hang) {
  return hang.fate == Fate::kCycle ? is_part(graph.waits[wait], hang.roots) : hang.wait == wait;
}

// Whether all of them would go on if that send came.
bool would_free(const WaitGraph& graph, const Hang& hang, Rank sender) {
  return hang.fate == Fate::kCycle ? WaitWalk(hang.roots, graph.waits).frees_all(hang.roots, sender)
                                   : hang.roots == Ranks{sender};
}

}  // namespace

void find_lacking_batches(const Run& run, WaitGraph& graph) {
  for (size_t i = 0; i < graph.waits.size(); ++i) {
    const auto lacking = lacking_send(run, graph.waits[i]);
    for (Hang& hang : graph.hangs) {
      if (!lacking || !hang.divergences.empty() || !is_of_hang(graph, i, hang) ||
          !would_free(graph, hang, lacking->own.rank)) {
        continue;
      }
      hang.wait = i;
      hang.fate = Fate::kAlive;
      hang.roots = lacking->deviants;
      hang.culprits.clear();
      hang.entered = true;
      hang.divergences = {run.divergences.size() + graph.divergences.size()};
      graph.divergences.push_back(*lacking);
      break;
    }
  }
}

}  // namespace traintrace
