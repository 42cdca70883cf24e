#include "analyzer/timeline/collectives/messages.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/collectives/noted_messages.h"

namespace traintrace {

std::span<const PeerMessage> messages_of(const Timeline& timeline, uint64_t correlation) {
  const auto first = std::lower_bound(
      timeline.messages.begin(), timeline.messages.end(), correlation,
      [](const PeerMessage& each, uint64_t value) { return each.correlation < value; });
  auto end = first;
  while (end != timeline.messages.end() && end->correlation == correlation) {
    ++end;
  }
  return {first, end};
}

std::set<uint64_t> communicators_of_pairs(const Timeline& timeline) {
  struct Ways {
    bool sends = false, receives = false;
  };
  std::map<std::tuple<uint64_t, uint64_t, int32_t>, Ways> peers;  // of a kernel, by communicator
  for (const PeerMessage& message : timeline.messages) {
    Ways& ways = peers[{message.correlation, message.communicator, message.peer}];
    (message.receives ? ways.receives : ways.sends) = true;
  }
  std::set<uint64_t> result;
  for (const auto& [peer, ways] : peers) {
    if (ways.sends != ways.receives) {
      result.insert(std::get<1>(peer));
    }
  }
  return result;
}

bool is_within(std::span<const PeerMessage> messages, const std::set<uint64_t>& communicators) {
  return std::any_of(messages.begin(), messages.end(), [&](const PeerMessage& message) {
    return communicators.contains(message.communicator);
  });
}

bool is_between_two(const Timeline& timeline, uint64_t correlation,
                    const std::set<uint64_t>& pairs) {
  const CollectiveNote* const note = collective_note(timeline, correlation);
  const std::string_view operation = note == nullptr || note->operation == kNoName
                                         ? std::string_view()
                                         : timeline.names[note->operation];
  return is_send(operation) || is_receive(operation) ||
         is_within(messages_of(timeline, correlation), pairs);
}

}  // namespace traintrace
