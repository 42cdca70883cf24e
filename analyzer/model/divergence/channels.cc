#include "analyzer/model/divergence/channels.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "analyzer/model/divergence/alignment.h"
#include "analyzer/model/divergence/messages.h"
#include "analyzer/model/groups.h"
#include "analyzer/model/process/ending.h"

namespace traintrace {
namespace {

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
    sequence.items.push_back(message_item(*at));
    --expected;
  }
  std::reverse(sequence.items.begin(), sequence.items.end());
  sequence.first = expected + 1;
  sequence.reached = expected + sequence.items.size();
  if (peer.hash != 0) {
    sequence.hashes = message_hashes(peer.hash, sequence.items);
  }
  return sequence;
}

struct ChannelPlace {
  uint64_t number = 0;
  bool harmless = false;
};

std::optional<ChannelPlace> first_place(const Channel& channel) {
  std::optional<ChannelPlace> harmless;
  const uint64_t last = std::min(channel.sends.reached, channel.receives.reached);
  for (uint64_t number = std::max(channel.sends.first, channel.receives.first); number <= last;
       ++number) {
    const SequenceItem& send = *channel.sends.at(number);
    const SequenceItem& receive = *channel.receives.at(number);
    if (send.key != receive.key) {
      return ChannelPlace{number, false};
    }
    if (send.operation.data_type != receive.operation.data_type && !harmless) {
      harmless = ChannelPlace{number, true};
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

// Both have posted the same number, and what follows agrees number by number: nothing is left over
// there, as there would be of a message that only one side has posted.
bool agrees_after(const Channel& channel, uint64_t number) {
  if (channel.sends.reached != channel.receives.reached || number >= channel.sends.reached) {
    return false;
  }
  for (uint64_t next = number + 1; next <= channel.sends.reached; ++next) {
    if (channel.sends.at(next)->key != channel.receives.at(next)->key) {
      return false;
    }
  }
  return true;
}

void describe(const Run& run, const Channel& channel, const ChannelPlace& place, Divergence& one) {
  one.sequence = one.sequence_last = one.met = place.number;
  one.kind = DivergenceKind::kHarmlessMessageType;
  if (place.harmless) {
    return;
  }
  const Communicator& communicator = run.communicators[one.communicator];
  one.kind = kind_of_change(run, communicator, channel, channel.sends.at(place.number)->operation,
                            channel.receives.at(place.number)->operation);
  if (agrees_after(channel, place.number)) {
    return;
  }
  const auto edit = align(channel.receives, channel.sends, place.number, Compared::kSides).first;
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

void set_calls(const Run& run, const Channel& channel, uint64_t number, Divergence& one) {
  one.communicator = channel.communicator;
  one.sequence = one.met = number;
  one.exact = one.complete = one.tie = true;
  one.deviants = {channel.from->rank};
  one.others = {channel.to->rank};
  one.own = call_at(run, channel.sends, number);
  one.expected = call_at(run, channel.receives, number);
  one.messages = {{one.own, one.expected}};
}

Divergence difference(const Run& run, const Channel& channel, const ChannelPlace& place) {
  Divergence one;
  one.communicator = channel.communicator;
  describe(run, channel, place, one);
  set_calls(run, channel, one.sequence, one);
  if (one.kind == DivergenceKind::kMessageOrder) {
    one.own_second = call_at(run, channel.sends, one.sequence + one.length);
    one.expected_second = call_at(run, channel.receives, one.sequence + one.length);
  }
  return one;
}

// Its counts are what it did: it ended by itself, and nothing of it is damaged, or not counted as
// it is called.
bool is_complete(const Run& run, const Member& member) {
  constexpr uint8_t kNot = format::kAborted | format::kAsyncError;
  const CommunicatorText& text = text_of(run, member);
  return exited_normally(run, *state_of(run, member.rank)) &&
         run.processes[member.process].errors.empty() && (text.flags & kNot) == 0 &&
         text.origin != format::kUnknownOrigin &&
         std::none_of(text.recent.begin(), text.recent.end(), [](const OperationText& operation) {
           return (operation.flags & (format::kCaptured | format::kReplayed)) != 0;
         });
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

// By rank in the communicator.
PeersOf::const_iterator first_peer(const PeersOf& peers, const Member& member) {
  return peers.lower_bound(std::tuple(member.process, static_cast<uint32_t>(member.element + 1),
                                      false, std::numeric_limits<int>::min()));
}

bool is_sent_by(const Member& member, const PeersOf::value_type& peer) {
  const auto& [process, communicator, receive, other] = peer.first;
  return process == member.process && communicator == member.element + 1 && !receive;
}

void add_differing(const Run& run, size_t index, const PeersOf& peers,
                   std::vector<Channel>& found) {
  const Communicator& communicator = run.communicators[index];
  std::map<int, const Member*> by_local_rank;
  for (const Member& member : communicator.members) {
    by_local_rank.emplace(member.local_rank, &member);
  }
  for (const Member& from : communicator.members) {
    // Only those that it has sent to: who has not are far more.
    for (auto sent = first_peer(peers, from);
         from.local_rank >= 0 && sent != peers.end() && is_sent_by(from, *sent); ++sent) {
      const int local_rank = std::get<int>(sent->first);
      const auto to = by_local_rank.find(local_rank);
      const PeerText* received = to == by_local_rank.end() || local_rank < 0
                                     ? nullptr
                                     : peer_of(peers, *to->second, true, from.local_rank);
      if (received == nullptr || to->second == &from ||
          (sent->second->operations == received->operations &&
           sent->second->hash == received->hash)) {
        continue;
      }
      found.push_back({index, &from, to->second, messages_of(run, from, *sent->second),
                       messages_of(run, *to->second, *received)});
    }
  }
}

}  // namespace

SequenceItem message_item(const OperationText& operation) {
  SequenceItem item;
  item.operation = operation;
  item.key = size_key(operation);
  return item;
}

std::vector<Channel> differing_channels(const Run& run) {
  const PeersOf peers = peers_by_key(run);
  std::vector<Channel> found;
  for (size_t i = 0; i < run.communicators.size() && !peers.empty(); ++i) {
    add_differing(run, i, peers, found);
  }
  return found;
}

std::optional<Divergence> first_difference(const Run& run, const Channel& channel) {
  const auto place = first_place(channel);
  return place ? std::optional(difference(run, channel, *place)) : std::nullopt;
}

Divergence difference_of(size_t communicator, const SideCall& send, const SideCall& receive) {
  Divergence one;
  one.communicator = communicator;
  one.kind = send.item.operation.data_type != receive.item.operation.data_type
                 ? DivergenceKind::kMessageType
                 : DivergenceKind::kMessageCount;
  one.tie = true;  // that they met is concluded from where both stand
  one.deviants = {send.rank};
  one.others = {receive.rank};
  one.own = send;
  one.expected = receive;
  one.messages = {{send, receive}};
  return one;
}

std::optional<Divergence> left_over_messages(const Run& run, const Channel& channel) {
  const uint64_t sent = channel.sends.reached;
  const uint64_t received = channel.receives.reached;
  if (sent == received || first_place(channel) || differs_before(channel) != 0 ||
      !is_complete(run, *channel.from) || !is_complete(run, *channel.to)) {
    return std::nullopt;
  }
  Divergence one;
  one.kind = sent > received ? DivergenceKind::kMissingReceive : DivergenceKind::kMissingSend;
  one.left_over = true;
  set_calls(run, channel, std::min(sent, received) + 1, one);
  one.sequence_last = std::max(sent, received);
  one.length = one.sequence_last - one.sequence + 1;
  return one;
}

uint64_t differs_before(const Channel& channel) {
  const uint64_t first = std::max(channel.sends.first, channel.receives.first);
  const auto sent = channel.sends.hash_at(first - 1);
  const auto received = channel.receives.hash_at(first - 1);
  return first > 1 && sent && received && *sent != *received ? first : 0;
}

}  // namespace traintrace
