#include "analyzer/model/divergence/older_messages.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "analyzer/model/divergence/channels.h"
#include "analyzer/model/divergence/message_blame.h"
#include "analyzer/model/divergence/wrong_peers.h"
#include "analyzer/model/event_operations.h"

namespace traintrace {
namespace {

std::vector<Channel> channels_with_older(const Run& run) {
  std::vector<Channel> found = differing_channels(run);
  std::erase_if(found, [&](const Channel& channel) {
    return differs_before(channel) == 0 || first_difference(run, channel);
  });
  return found;
}

// As far back from the newest as there is no gap.
Sequence older_part(const ProcessTrace& trace, const Member& member, int peer, bool receive) {
  const EventMessages messages = event_messages(trace, member.element, peer, receive);
  Sequence part;
  part.member = &member;
  for (auto at = messages.rbegin(); at != messages.rend(); ++at) {
    if (at != messages.rbegin() && at->first + 1 != std::prev(at)->first) {
      break;
    }
    part.items.push_back(message_item(at->second));
  }
  std::reverse(part.items.begin(), part.items.end());
  part.reached = messages.empty() ? 0 : messages.rbegin()->first;
  part.first = part.reached + 1 - part.items.size();
  return part;
}

std::optional<Divergence> older_difference(const Run& run, const ReadEvents& read_events,
                                           const Channel& channel) {
  Channel older = channel;
  const ProcessTrace* trace = read_events(run.processes[channel.from->process]);
  if (trace == nullptr) {
    return std::nullopt;
  }
  older.sends = older_part(*trace, *channel.from, channel.to->local_rank, false);
  trace = read_events(run.processes[channel.to->process]);
  if (trace == nullptr) {
    return std::nullopt;
  }
  older.receives = older_part(*trace, *channel.to, channel.from->local_rank, true);
  return first_difference(run, older);
}

bool is_about(const Divergence& one, const Channel& channel) {
  return one.communicator == channel.communicator && is_of_messages(one.kind) &&
         std::any_of(one.messages.begin(), one.messages.end(), [&](const Message& message) {
           return message.send.rank == channel.from->rank &&
                  message.receive.rank == channel.to->rank;
         });
}

}  // namespace

void find_older_messages(Run& run, const ReadEvents& read_events) {
  constexpr size_t kMost = 16;  // each takes the events of two processes
  std::vector<Divergence> faults;
  size_t looked = 0;
  for (const Channel& channel : channels_with_older(run)) {
    if (looked++ < kMost) {
      if (auto fault = older_difference(run, read_events, channel)) {
        faults.push_back(std::move(*fault));
      }
    }
  }
  join_wrong_peers(run, faults);
  blame_messages(run, faults);
  std::move(faults.begin(), faults.end(), std::back_inserter(run.divergences));
}

std::vector<UnknownMessages> unknown_messages(const Run& run) {
  std::vector<UnknownMessages> found;
  for (const Channel& channel : channels_with_older(run)) {
    if (std::none_of(run.divergences.begin(), run.divergences.end(),
                     [&](const Divergence& one) { return is_about(one, channel); })) {
      found.push_back(
          {channel.communicator, channel.from->rank, channel.to->rank, differs_before(channel)});
    }
  }
  return found;
}

}  // namespace traintrace
