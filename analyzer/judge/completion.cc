#include "analyzer/judge/completion.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "analyzer/model/divergence/conflicts.h"
#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"

namespace traintrace {
namespace {

// Nothing that it called runs any more, or none of it is waited for.
bool is_over(const Run& run, const Member& member) {
  return exited_normally(run, *state_of(run, member.rank)) || has_left(run, member);
}

bool is_through_with(const Run& run, const Member& member, uint64_t sequence) {
  const OperationText* const operation = collective_at(text_of(run, member), sequence);
  return operation != nullptr && finished(run.processes[member.process], *operation);
}

// Some member is known to be through with it.
bool is_through(const Run& run, size_t communicator, uint64_t sequence) {
  const auto& members = run.communicators[communicator].members;
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return is_through_with(run, member, sequence); });
}

// One of these is.
bool are_through(const Run& run, size_t communicator, uint64_t sequence, const Ranks& ranks) {
  const auto& members = run.communicators[communicator].members;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return contains(ranks, member.rank) && is_through_with(run, member, sequence);
  });
}

// How many of its calls up to that number NCCL dropped, because their count was 0, while others
// called it with data and got through: what it called after that met what the others called
// earlier.
uint64_t dropped_until(const Run& run, size_t index, const Member& member, uint64_t sequence) {
  uint64_t dropped = 0;
  for (const Divergence& divergence : run.divergences) {
    if (divergence.kind != DivergenceKind::kEmpty || divergence.communicator != index ||
        !divergence.exact || !contains(divergence.deviants, member.rank) ||
        !are_through(run, index, divergence.met, divergence.others)) {
      continue;
    }
    const std::vector<OperationText>& recent = text_of(run, member).recent;
    dropped += static_cast<uint64_t>(
        std::count_if(recent.begin(), recent.end(), [&](const OperationText& operation) {
          return operation.collective && (operation.flags & format::kEmpty) != 0 &&
                 operation.sequence == divergence.met && operation.sequence <= sequence;
        }));
  }
  return dropped;
}

bool is_certain(const ProcessTrace& trace, const OperationText& operation) {
  return certainly_unfinished(gpu_state(trace, operation));
}

bool lacks(const Match& match, Rank rank) {
  return std::any_of(match.missing.begin(), match.missing.end(),
                     [&](const Awaited& awaited) { return awaited.rank == rank; });
}

}  // namespace

bool waits_for_certain(const Run& run, const Member& member, const OperationText& operation) {
  return is_certain(run.processes[member.process], operation) ||
         waiter_of(run, member, operation.enter, operation.stack).blocked;
}

Completion::Completion(const Run& run, Ranks explained)
    : run_(run), explained_(std::move(explained)) {
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    if (run.communicators[i].size != 1 && !run.communicators[i].members.empty()) {
      add_communicator(i);
    }
  }
  find_differing();
  make_units();
  order_by_events();
  solve();
}

bool Completion::is_pending(const ProcessTrace& trace, const OperationText& operation) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  return (operation.flags & kNot) == 0 && operation.sequence != 0 && !finished(trace, operation);
}

// Until `time`; 0: until the end.
Completion::Reached Completion::reached_until(const Member& member, TimeNs time) const {
  const CommunicatorText& text = text_of(run_, member);
  const ProcessTrace& trace = run_.processes[member.process];
  Reached reached{sequence_reached(trace, text), last_move(trace, text)};
  const OperationText* operation = collective_at(text, reached.sequence);
  while (time != 0 && operation != nullptr && operation->enter > time) {
    operation = collective_at(text, --reached.sequence);
    reached.last = operation == nullptr ? 0 : operation->enter;
  }
  return reached;
}

void Completion::add_communicator(size_t index) {
  const Communicator& communicator = run_.communicators[index];
  const TimeNs end = first_abort(run_, communicator);
  std::vector<Reached> reached;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const Member& member : communicator.members) {
    reached.push_back(reached_until(member, end));
    least = std::min(least, reached.back().sequence);
  }
  for (size_t i = 0; i < communicator.members.size(); ++i) {
    if (!is_over(run_, communicator.members[i])) {
      add_member(index, communicator.members[i], reached[i].sequence, least + 1);
    }
  }
  for (size_t i = 0; i < communicator.members.size(); ++i) {
    reached[i].sequence -= dropped_until(run_, index, communicator.members[i], reached[i].sequence);
  }
  find_missing(index, reached);
  add_lost(index, reached);
  add_cut_off(index, reached);
  add_untraced(index);
}

// `first`: that not all members have come to.
void Completion::add_member(size_t index, const Member& member, uint64_t reached, uint64_t first) {
  const ProcessTrace& trace = run_.processes[member.process];
  const CommunicatorText& text = text_of(run_, member);
  const auto open = open_group(trace, text);
  const auto kept =
      std::find_if(text.recent.begin(), text.recent.end(), [](const OperationText& operation) {
        return operation.collective && operation.sequence != 0;
      });
  if (kept != text.recent.end() && kept->sequence > first && reached >= first &&
      text.finished < first) {
    // So long ago that it is not kept: before all that is, of messages too.
    const OperationText& oldest = *std::find_if(
        text.recent.begin(), text.recent.end(),
        [&](const OperationText& operation) { return operation.stream == kept->stream; });
    OperationText& evicted = evicted_.emplace_back(*kept);
    evicted.sequence = first;
    evicted.stack = 0;
    evicted.enter = oldest.enter;
    evicted.position = oldest.position;
    evicted.position -= evicted.position > 1 && evicted.position != format::kNeverReached ? 1 : 0;
    if (is_pending(trace, evicted)) {
      add_part(index, member, evicted);
    }
  }
  for (const OperationText& operation : text.recent) {
    const bool issued = operation.collective
                            ? operation.sequence <= reached
                            : (!open || operation.index < open->first->index) &&
                                  operation.peer != member.local_rank && member.local_rank >= 0;
    if (issued && is_pending(trace, operation)) {
      add_part(index, member, operation);
    }
  }
}

// That send is what does not go on: its kernel runs, or its host has not come out of the call.  A
// host that waits for the whole stream may wait for something else there.
bool Completion::is_held(const Member& member, const OperationText& operation) const {
  return gpu_state(run_.processes[member.process], operation) == GpuState::kReached ||
         (operation.leave == 0 &&
          waiter_of(run_, member, operation.enter, operation.stack).blocked);
}

// Who only sends may be done long ago.
bool Completion::needs_peers(const Member& member, const OperationText& operation) const {
  if (!operation.collective) {
    return operation.receive || !is_eager(operation) || is_held(member, operation);
  }
  const Direction direction =
      direction_of(call_name(run_.processes[member.process], operation.call));
  const bool is_root = member.local_rank == operation.peer && member.local_rank >= 0;
  const ProcessTrace& trace = run_.processes[member.process];
  const bool is_last = operation.sequence == text_of(run_, member).collectives;
  return direction == Direction::kAllToAll ||
         (direction == Direction::kFromRoot ? !is_root : is_root) ||
         waits_for_certain(run_, member, operation) ||
         (is_last && is_polling(trace, state_of(run_, member.rank)->last_seen));
}

void Completion::add_part(size_t index, const Member& member, const OperationText& operation) {
  MatchPart& part = parts_.emplace_back();
  part.member = &member;
  part.operation = &operation;
  part.match = match_of(index, member, operation);
  part.needs = needs_peers(member, operation);
  matches_[part.match].parts.push_back(parts_.size() - 1);
  // Where the stream is not known, those of one communicator come one after the other.
  constexpr uint64_t kNoStream = uint64_t{1} << 32;
  const uint64_t stream = operation.stream != 0 ? operation.stream : kNoStream + member.element;
  streams_[{member.rank, stream}].push_back(parts_.size() - 1);
}

size_t Completion::match_of(size_t index, const Member& member, const OperationText& operation) {
  const int from = operation.receive ? operation.peer : member.local_rank;
  const int to = operation.receive ? member.local_rank : operation.peer;
  const uint64_t sequence =
      operation.sequence -
      (operation.collective ? dropped_until(run_, index, member, operation.sequence) : 0);
  const Key key(index, operation.collective, sequence, operation.collective ? -1 : from,
                operation.collective ? -1 : to);
  const auto [at, is_new] = by_key_.try_emplace(key, matches_.size());
  if (is_new) {
    Match& match = matches_.emplace_back();
    match.communicator = index;
    match.collective = operation.collective;
    match.sequence = sequence;
  }
  return at->second;
}

void Completion::find_missing(size_t index, const std::vector<Reached>& reached) {
  const Communicator& communicator = run_.communicators[index];
  uint64_t dropped = 0;
  for (const Member& member : communicator.members) {
    dropped =
        std::max(dropped, dropped_until(run_, index, member, text_of(run_, member).collectives));
  }
  const uint64_t entered_by_all = last_finished(run_, communicator) - dropped;
  for (Match& match : matches_) {
    if (match.communicator != index) {
      continue;
    }
    if (match.collective) {
      for (size_t i = 0; i < reached.size(); ++i) {
        if (reached[i].sequence < match.sequence && match.sequence > entered_by_all) {
          match.missing.push_back({communicator.members[i].rank, false, reached[i].last});
        }
      }
      continue;
    }
    const MatchPart& own = parts_[match.parts.front()];
    if (match.parts.size() == 1 && is_unanswered(run_, communicator, *own.member, *own.operation)) {
      const Member& peer = *member_at(communicator, own.operation->peer);
      match.missing.push_back(
          {peer.rank, false, last_move(run_.processes[peer.process], text_of(run_, peer))});
    }
  }
}

// All had been in it for as long as a hang takes when it died: they had been stuck before.
bool Completion::was_stuck_before(const Member& member, const Match& match) const {
  const RankState& own = *state_of(run_, member.rank);
  TimeNs entered = 0;
  for (const size_t index : match.parts) {
    const MatchPart& part = parts_[index];
    const TimeNs off =
        uncertainty_between(run_, trace_of(run_, own), run_.processes[part.member->process]);
    const bool comparable = off != kNoCommonClock;
    entered = std::max(entered, comparable ? part.operation->enter + off : 0);
  }
  return entered != 0 &&
         match.parts.size() == run_.communicators[match.communicator].members.size() &&
         elapsed(entered, known_until(run_, own)) >= run_.hang_after;
}

// Members that died with their own part undone.  Which of those in flight that is, only their GPU
// may have said; else it is the last that it called.
void Completion::add_lost(size_t index, const std::vector<Reached>& reached) {
  const Communicator& communicator = run_.communicators[index];
  for (const size_t i : by_death(run_, communicator)) {
    const Member& member = communicator.members[i];
    if (contains(explained_, member.rank)) {
      continue;
    }
    size_t lost = matches_.size();
    for (const auto& [key, at] : by_key_) {
      const auto& parts = matches_[at].parts;
      const auto own = std::find_if(parts.begin(), parts.end(),
                                    [&](size_t part) { return parts_[part].member == &member; });
      if (std::get<0>(key) != index || !matches_[at].collective || own == parts.end()) {
        continue;
      }
      const bool certain = is_certain(run_.processes[member.process], *parts_[*own].operation);
      if (certain || matches_[at].sequence == reached[i].sequence) {
        lost = at;
        break;
      }
    }
    const RankState& own = *state_of(run_, member.rank);
    const bool first =
        lost < matches_.size() &&
        std::all_of(matches_[lost].missing.begin(), matches_[lost].missing.end(),
                    [&](const Awaited& other) {
                      const RankState* const state = state_of(run_, other.rank);
                      return state->process == own.process ||
                             (other.entered && may_have_died_first(run_, own, *state));
                    });
    if (first && !was_stuck_before(member, matches_[lost])) {
      matches_[lost].missing.push_back({member.rank, true, text_of(run_, member).last});
    }
  }
}

// Some other part of it was called for certain after that process had ended.
bool Completion::is_entered_after(const ProcessTrace& trace, TimeNs ended,
                                  const Match& match) const {
  return std::any_of(match.parts.begin(), match.parts.end(), [&](size_t index) {
    const MatchPart& part = parts_[index];
    const TimeNs off = uncertainty_between(run_, trace, run_.processes[part.member->process]);
    return off != kNoCommonClock && elapsed(ended, part.operation->enter) > off;
  });
}

// What the member issued of it; null: nothing, or what its peers do not need to be complete.
const OperationText* Completion::part_of(const Member& member, const Match& match) const {
  if (match.collective) {
    const OperationText* const own = collective_at(text_of(run_, member), match.sequence);
    const bool needed =
        own != nullptr && (own->flags & format::kEmpty) == 0 &&
        direction_of(call_name(run_.processes[member.process], own->call)) == Direction::kAllToAll;
    return needed ? own : nullptr;
  }
  const auto own = std::find_if(match.parts.begin(), match.parts.end(),
                                [&](size_t part) { return parts_[part].member == &member; });
  const OperationText* const operation =
      own == match.parts.end() ? nullptr : parts_[*own].operation;
  return operation == nullptr || is_eager(*operation) ? nullptr : operation;
}

// Members that had issued their part when they exited normally, or of a message when they died.
// What all members need one from another cannot have been complete by then where another called it
// later: that part ended with their process.
void Completion::add_cut_off(size_t index, const std::vector<Reached>& reached) {
  const Communicator& communicator = run_.communicators[index];
  for (size_t i = 0; i < communicator.members.size(); ++i) {
    const Member& member = communicator.members[i];
    const RankState& state = *state_of(run_, member.rank);
    const ProcessTrace& trace = trace_of(run_, state);
    const bool died = died_waiting(run_, member) && !contains(explained_, member.rank);
    const bool exited = exited_normally(run_, state) && trace.exited != 0;
    if ((!exited && !died) || has_left(run_, member)) {
      continue;
    }
    const TimeNs ended = exited ? trace.exited : known_until(run_, state);
    for (Match& match : matches_) {
      const bool issued = match.communicator == index && !match.parts.empty() &&
                          !lacks(match, member.rank) &&
                          (!match.collective || (exited && match.sequence <= reached[i].sequence &&
                                                 !is_through(run_, index, match.sequence)));
      if (issued && part_of(member, match) != nullptr && is_entered_after(trace, ended, match)) {
        match.missing.push_back({member.rank, true, text_of(run_, member).last});
      }
    }
  }
}

// Whoever left no trace, or a damaged one, may be in it as well: only who is certainly stuck waits
// for them, and in the oldest that no member is known to be through with.
void Completion::add_untraced(size_t index) {
  const Communicator& communicator = run_.communicators[index];
  if (static_cast<int>(communicator.members.size()) >= communicator.size) {
    return;
  }
  Match* oldest = nullptr;
  for (Match& match : matches_) {
    const bool may_be_it = match.communicator == index && match.collective &&
                           (oldest == nullptr || match.sequence < oldest->sequence) &&
                           match.missing.empty() && !is_through(run_, index, match.sequence);
    if (may_be_it && std::any_of(match.parts.begin(), match.parts.end(), [&](size_t part) {
          const OperationText& own = *parts_[part].operation;
          return waiter_of(run_, *parts_[part].member, own.enter, own.stack).blocked;
        })) {
      oldest = &match;
    }
  }
  for (const Rank rank : oldest != nullptr ? communicator.absent : Ranks()) {
    if (is_unknown(run_, rank)) {
      oldest->missing.push_back({rank, false, 0});
    }
  }
}

// What was called there does not belong together: as if it never ended.
void Completion::find_differing() {
  for (const Divergence& divergence : run_.divergences) {
    const size_t index = divergence.communicator;
    if (is_conflict(divergence) && !is_through(run_, index, divergence.met)) {
      set_differing({index, true, divergence.met, -1, -1});
    }
    if (!is_of_messages(divergence.kind) ||
        divergence.kind == DivergenceKind::kHarmlessMessageType) {
      continue;
    }
    for (const Message& message : divergence.messages) {
      const Member* const from = member_of(run_.communicators[index], message.send.rank);
      const Member* const to = member_of(run_.communicators[index], message.receive.rank);
      const uint64_t number = message.send.item.operation.sequence;
      if (from != nullptr && to != nullptr && number == message.receive.item.operation.sequence) {
        set_differing({index, false, number, from->local_rank, to->local_rank});
      }
    }
  }
}

void Completion::set_differing(const Key& key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) {
    matches_[found->second].differs = true;
  }
}

}  // namespace traintrace
