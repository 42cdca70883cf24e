#include "analyzer/model/messages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/alignment.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/message_blame.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/sequences.h"
#include "analyzer/model/wrong_peers.h"

namespace traintrace {
namespace {

// Both sides of what one rank sends to another.
struct Channel {
  const Member* from = nullptr;
  const Member* to = nullptr;
  Sequence sends;
  Sequence receives;
};

SequenceItem item_of(const OperationText& operation) {
  SequenceItem item;
  item.operation = operation;
  item.key = size_key(operation);
  return item;
}

// Newest first as far as they follow one another; then in order.
Sequence messages_of(const Run& run, const Member& member, const PeerText& peer) {
  Sequence sequence;
  sequence.member = &member;
  const CommunicatorText& text = text_of(run, member);
  uint64_t expected = peer.operations;
  constexpr uint8_t kNot = format::kCaptured | format::kFailed;
  for (auto at = text.recent.rbegin(); at != text.recent.rend() && expected > 0; ++at) {
    if (at->collective || at->receive != peer.receive || at->peer != peer.peer ||
        (at->flags & kNot) != 0) {
      continue;
    }
    if (at->sequence != expected) {
      break;
    }
    sequence.items.push_back(item_of(*at));
    --expected;
  }
  std::reverse(sequence.items.begin(), sequence.items.end());
  sequence.first = expected + 1;
  sequence.reached = expected + sequence.items.size();
  return sequence;
}

struct Place {
  uint64_t number = 0;
  bool harmless = false;
};

std::optional<Place> first_difference(const Channel& channel) {
  std::optional<Place> harmless;
  const uint64_t last = std::min(channel.sends.reached, channel.receives.reached);
  for (uint64_t number = std::max(channel.sends.first, channel.receives.first); number <= last;
       ++number) {
    const SequenceItem& send = *channel.sends.at(number);
    const SequenceItem& receive = *channel.receives.at(number);
    if (send.key != receive.key) {
      return Place{number, false};
    }
    if (send.operation.data_type != receive.operation.data_type && !harmless) {
      harmless = Place{number, true};
    }
  }
  return harmless;
}

DivergenceKind kind_of_change(const Run& run, const Communicator& communicator,
                              const Channel& channel, const OperationText& send,
                              const OperationText& receive) {
  if (is_exchange(communicator, text_of(run, *channel.from), send) &&
      is_exchange(communicator, text_of(run, *channel.to), receive)) {
    return DivergenceKind::kExchange;
  }
  return send.data_type != receive.data_type ? DivergenceKind::kMessageType
                                             : DivergenceKind::kMessageCount;
}

void describe(const Run& run, const Channel& channel, const Place& place, Divergence& one) {
  one.sequence = one.sequence_last = one.met = place.number;
  one.kind = DivergenceKind::kHarmlessMessageType;
  if (place.harmless) {
    return;
  }
  const Communicator& communicator = run.communicators[one.communicator];
  one.kind = kind_of_change(run, communicator, channel, channel.sends.at(place.number)->operation,
                            channel.receives.at(place.number)->operation);
  const auto edit = align(channel.receives, channel.sends, place.number).first;
  if (!edit || edit->kind == EditKind::kChanged || !edit->unique) {
    return;
  }
  one.sequence = one.met = edit->number;
  one.sequence_last = edit->number_last;
  one.length = edit->length;
  one.matches = edit->matches;
  one.kind = edit->kind == EditKind::kSwapped   ? DivergenceKind::kMessageOrder
             : edit->kind == EditKind::kSkipped ? DivergenceKind::kMissingReceive
                                                : DivergenceKind::kMissingSend;
}

SideCall call_at(const Run& run, const Sequence& sequence, uint64_t number) {
  const SequenceItem* item = sequence.at(number);
  return item == nullptr ? SideCall{sequence.member->rank, sequence.member->process, {}}
                         : call_of(run, *sequence.member, item->operation);
}

Divergence difference(const Run& run, size_t index, const Channel& channel, const Place& place) {
  Divergence one;
  one.communicator = index;
  describe(run, channel, place, one);
  one.exact = one.complete = true;
  one.tie = true;
  one.deviants = {channel.from->rank};
  one.others = {channel.to->rank};
  one.own = call_at(run, channel.sends, one.sequence);
  one.expected = call_at(run, channel.receives, one.sequence);
  if (one.kind == DivergenceKind::kMessageOrder) {
    one.own_second = call_at(run, channel.sends, one.sequence + one.length);
    one.expected_second = call_at(run, channel.receives, one.sequence + one.length);
  }
  one.messages = {{one.own, one.expected}};
  return one;
}

using PeersOf = std::map<std::tuple<size_t, uint32_t, bool, int>, const PeerText*>;

PeersOf peers_by_key(const Run& run) {
  PeersOf peers;
  for (size_t process = 0; process < run.processes.size(); ++process) {
    for (const PeerText& peer : run.processes[process].peers) {
      peers.emplace(std::tuple(process, peer.communicator, peer.receive, peer.peer), &peer);
    }
  }
  return peers;
}

const PeerText* peer_of(const PeersOf& peers, const Member& member, bool receive, int other) {
  const auto found = peers.find(
      std::tuple(member.process, static_cast<uint32_t>(member.element + 1), receive, other));
  return found == peers.end() ? nullptr : found->second;
}

void compare_channels(const Run& run, size_t index, const PeersOf& peers,
                      std::vector<Divergence>& found) {
  const Communicator& communicator = run.communicators[index];
  std::map<int, const Member*> by_local_rank;
  for (const Member& member : communicator.members) {
    by_local_rank.emplace(member.local_rank, &member);
  }
  for (const Member& from : communicator.members) {
    for (const auto& [local_rank, to] : by_local_rank) {
      const PeerText* sent =
          from.local_rank < 0 ? nullptr : peer_of(peers, from, false, local_rank);
      const PeerText* received =
          sent == nullptr || local_rank < 0 ? nullptr : peer_of(peers, *to, true, from.local_rank);
      if (received == nullptr || to == &from ||
          (sent->operations == received->operations && sent->hash == received->hash)) {
        continue;
      }
      const Channel channel{&from, to, messages_of(run, from, *sent),
                            messages_of(run, *to, *received)};
      if (const auto place = first_difference(channel)) {
        found.push_back(difference(run, index, channel, *place));
      }
    }
  }
}

const OperationText* waiting_in(const Run& run, const Communicator& communicator,
                                const SideCall& call) {
  const Member* member = member_of(communicator, call.rank);
  const OperationText& operation = call.item.operation;
  if (member == nullptr || operation.enter == 0 || has_left(run, *member) ||
      (operation.flags & format::kEmpty) != 0 || finished(run.processes[call.process], operation)) {
    return nullptr;
  }
  return &operation;
}

// `waiting` is in it for what `awaited` does otherwise.
std::optional<Wait> message_wait(const Run& run, const Divergence& one, const SideCall& waiting,
                                 const SideCall& awaited) {
  const Communicator& communicator = run.communicators[one.communicator];
  const OperationText* operation = waiting_in(run, communicator, waiting);
  if (operation == nullptr) {
    return std::nullopt;
  }
  const ProcessTrace& trace = run.processes[waiting.process];
  Waiter own =
      waiter_of(run, *member_of(communicator, waiting.rank), operation->enter, operation->stack);
  own.unfinished = certainly_unfinished(gpu_state(trace, *operation));
  if (!operation->receive && is_eager(*operation) && !own.blocked && !own.unfinished) {
    return std::nullopt;
  }
  Wait wait;
  wait.kind = operation->receive ? WaitKind::kReceive : WaitKind::kSend;
  wait.communicator = one.communicator;
  wait.sequence = operation->sequence;
  wait.operation = call_name(trace, operation->call);
  wait.details = *operation;
  wait.waiters = {own};
  wait.awaited = {{awaited.rank, false, awaited.item.operation.enter}};
  return wait;
}

// What they wait in since then is no reason for anything.
void free_deviants(const Divergence& one, std::vector<Wait>& waits) {
  for (Wait& wait : waits) {
    std::erase_if(wait.waiters, [&](const Waiter& waiter) {
      return contains(one.deviants, waiter.rank) && waiter.since >= one.own.item.operation.enter;
    });
  }
}

}  // namespace

uint64_t size_key(const OperationText& operation) {
  uint64_t bytes = 0;
  const uint64_t each = bytes_of_type(operation.data_type);
  if (each != 0 && !__builtin_mul_overflow(operation.count, each, &bytes)) {
    return bytes;
  }
  return ~(operation.count << 8 | static_cast<uint8_t>(operation.data_type));
}

bool is_eager(const OperationText& operation) {
  // What a peer's buffers take without a receive being posted (NCCL_BUFFSIZE, 4 MiB).
  constexpr uint64_t kEagerBytes = 4 << 20;
  uint64_t bytes = 0;
  return !__builtin_mul_overflow(operation.count, bytes_of_type(operation.data_type), &bytes) &&
         bytes <= kEagerBytes;
}

SideCall call_of(const Run& run, const Member& member, const OperationText& operation) {
  SideCall call{member.rank, member.process, item_of(operation)};
  call.item.function = call_name(run.processes[member.process], operation.call);
  return call;
}

void find_message_faults(const Run& run, std::vector<Divergence>& found) {
  const PeersOf peers = peers_by_key(run);
  std::vector<Divergence> faults;
  for (size_t i = 0; i < run.communicators.size() && !peers.empty(); ++i) {
    compare_channels(run, i, peers, faults);
  }
  join_wrong_peers(run, faults);
  blame_messages(run, faults);
  std::move(faults.begin(), faults.end(), std::back_inserter(found));
}

bool is_pending(const Run& run, const Message& message) {
  const OperationText& send = message.send.item.operation;
  const OperationText& receive = message.receive.item.operation;
  const bool received =
      receive.enter == 0 || finished(run.processes[message.receive.process], receive);
  const bool sent = send.enter == 0 || finished(run.processes[message.send.process], send);
  return !received || (!sent && !is_eager(send));
}

void add_message_waits(const Run& run, std::vector<Wait>& waits) {
  for (const Divergence& one : run.divergences) {
    if (!is_of_messages(one.kind) || one.kind == DivergenceKind::kHarmlessMessageType) {
      continue;
    }
    if (!one.tie) {
      free_deviants(one, waits);
    }
    for (const Message& message : one.messages) {
      for (const auto& [waiting, awaited] : {std::pair(&message.send, &message.receive),
                                             std::pair(&message.receive, &message.send)}) {
        if (one.tie || contains(one.deviants, awaited->rank)) {
          if (auto wait = message_wait(run, one, *waiting, *awaited)) {
            waits.push_back(std::move(*wait));
          }
        }
      }
    }
  }
}

}  // namespace traintrace
