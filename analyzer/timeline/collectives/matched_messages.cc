#include "analyzer/timeline/collectives/matched_messages.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/collectives/clocks.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

struct Message {
  MessageSide side;
  int64_t bytes;
};

// All that goes from one rank to another, in the order of the launches.
struct Link {
  std::vector<Message> sends, receives;
};

using LinkEnds = std::tuple<uint64_t, int32_t, int32_t>;  // communicator, from, to

std::map<LinkEnds, Link> links_of(std::span<const Timeline> timelines) {
  std::map<LinkEnds, Link> links;
  for (size_t i = 0; i < timelines.size(); ++i) {
    const Timeline& timeline = timelines[i];
    if (timeline.by_host || timeline.messages.empty()) {
      continue;
    }
    std::unordered_map<uint64_t, size_t> kernels;  // by correlation, the first
    for (size_t work = 0; work < timeline.work.size(); ++work) {
      if (timeline.work[work].kind == WorkKind::kCommunication) {
        kernels.try_emplace(timeline.work[work].correlation, work);
      }
    }
    for (const PeerMessage& message : timeline.messages) {
      const auto kernel = kernels.find(message.correlation);
      if (kernel == kernels.end() || message.peer == message.rank) {
        continue;
      }
      const GpuWork& work = timeline.work[kernel->second];
      const MessageSide side = {i, kernel->second, added_within(timeline.base_ns, work.start_ns),
                                added_within(timeline.base_ns, work.end_ns)};
      Link& link = message.receives ? links[{message.communicator, message.peer, message.rank}]
                                    : links[{message.communicator, message.rank, message.peer}];
      (message.receives ? link.receives : link.sends).push_back({side, message.bytes});
    }
  }
  return links;
}

// Where two processes say that they are the same rank of a communicator, it is not one.
bool is_of_one(const std::vector<Message>& messages) {
  return !messages.empty() &&
         std::all_of(messages.begin(), messages.end(), [&](const Message& message) {
           return message.side.timeline == messages.front().side.timeline;
         });
}

bool differ_in_bytes(const Message& send, const Message& receive) {
  return send.bytes >= 0 && receive.bytes >= 0 && send.bytes != receive.bytes;
}

// The first send belongs to receive number `by`, the next one to the next: how well that fits.
struct Shift {
  int64_t by = 0;
  size_t pairs = 0, ends_agree = 0;
};

// None: it cannot be.
std::optional<Shift> shift_by(const Link& link, int64_t by, int64_t noise_ns) {
  Shift shift = {by};
  for (size_t i = by < 0 ? static_cast<size_t>(-by) : 0; i < link.sends.size(); ++i) {
    const auto at = static_cast<size_t>(static_cast<int64_t>(i) + by);
    if (at >= link.receives.size()) {
      break;
    }
    const Message& send = link.sends[i];
    const Message& receive = link.receives[at];
    if (differ_in_bytes(send, receive) ||
        added_within(receive.side.end_ns, noise_ns) < send.side.start_ns) {
      return std::nullopt;
    }
    ++shift.pairs;
    shift.ends_agree += std::abs(receive.side.end_ns - send.side.end_ns) <= kEndSkewNs ? 1 : 0;
  }
  return shift.pairs == 0 ? std::nullopt : std::optional(shift);
}

// With which receive a send would have to begin for the ends of some to agree.
std::set<int64_t> shifts_to_try(const Link& link) {
  constexpr size_t kMostTried = 16;  // of one moment
  std::set<int64_t> shifts = {0};
  std::vector<std::pair<int64_t, size_t>> ends;
  for (size_t i = 0; i < link.sends.size(); ++i) {
    ends.emplace_back(link.sends[i].side.end_ns, i);
  }
  std::sort(ends.begin(), ends.end());
  for (const size_t quarter : {1, 2, 3}) {
    const size_t receive = link.receives.size() * quarter / 4;
    const int64_t end = link.receives[receive].side.end_ns;
    auto near = std::lower_bound(ends.begin(), ends.end(), std::pair(end - kEndSkewNs, size_t{0}));
    for (size_t tried = 0; tried < kMostTried && near != ends.end(); ++tried, ++near) {
      if (near->first > end + kEndSkewNs) {
        break;
      }
      shifts.insert(static_cast<int64_t>(receive) - static_cast<int64_t>(near->second));
    }
  }
  return shifts;
}

// In their order, unless the ends say that one side has more of them at its beginning.
std::optional<Shift> best_shift(const Link& link, int64_t noise_ns) {
  std::optional<Shift> best;
  for (const int64_t by : shifts_to_try(link)) {
    const std::optional<Shift> shift = shift_by(link, by, noise_ns);
    const bool in_order = by == 0 && link.sends.size() == link.receives.size();
    if (!shift || (!in_order && 2 * shift->ends_agree <= shift->pairs)) {
      continue;
    }
    if (!best || shift->ends_agree > best->ends_agree ||
        (shift->ends_agree == best->ends_agree && in_order)) {
      best = shift;
    }
  }
  return best;
}

// The largest of which some sender did not wait for the receiver; -1: none.
int64_t buffered_bytes(const std::vector<MatchedMessage>& messages,
                       const std::vector<int64_t>& bytes) {
  int64_t largest = -1;
  for (size_t i = 0; i < messages.size(); ++i) {
    largest = messages[i].sender_waits ? largest : std::max(largest, bytes[i]);
  }
  return largest;
}

void match(const Link& link, const Shift& shift, int64_t noise_ns,
           std::vector<MatchedMessage>& result) {
  std::vector<MatchedMessage> messages;
  std::vector<int64_t> bytes;
  const size_t first = shift.by < 0 ? static_cast<size_t>(-shift.by) : 0;
  for (size_t i = first; i < first + shift.pairs; ++i) {
    const Message& send = link.sends[i];
    const Message& receive = link.receives[static_cast<size_t>(static_cast<int64_t>(i) + shift.by)];
    messages.push_back({send.side, receive.side,
                        added_within(send.side.end_ns, noise_ns) >= receive.side.start_ns});
    bytes.push_back(send.bytes);
  }
  const int64_t buffered = buffered_bytes(messages, bytes);
  for (size_t i = 0; i < messages.size(); ++i) {
    messages[i].sender_waits = messages[i].sender_waits && (bytes[i] < 0 || bytes[i] > buffered);
  }
  result.insert(result.end(), messages.begin(), messages.end());
}

bool have_one_clock(const Timeline& one, const Timeline& other) {
  return !one.host.empty() && one.host == other.host;
}

// Of both ways, where these are of the same two processes.
bool are_of_two(const std::vector<Link*>& ways) {
  const auto& there = *ways.front();
  const auto& back = *ways.back();
  const size_t one = there.sends.front().side.timeline;
  const size_t other = there.receives.front().side.timeline;
  return one != other && (ways.size() == 1 || (back.sends.front().side.timeline == other &&
                                               back.receives.front().side.timeline == one));
}

// Of two hosts: what both ranks say of the end of a message that its sender had to wait with is of
// the same moment.  False: their clocks cannot be brought together.
bool align(std::span<const Timeline> timelines, const std::vector<Link*>& ways, int64_t& noise_ns) {
  const size_t first = ways.front()->sends.front().side.timeline;
  Arrivals arrivals;
  arrivals.members = {first, ways.front()->receives.front().side.timeline};
  arrivals.entered_ns = {0, 0};
  arrivals.numbered = true;
  std::vector<std::pair<MessageSide*, MessageSide*>> sides;
  for (Link* const link : ways) {
    if (link->sends.size() != link->receives.size()) {
      return false;
    }
    for (size_t i = 0; i < link->sends.size(); ++i) {
      MessageSide* send = &link->sends[i].side;
      MessageSide* receive = &link->receives[i].side;
      sides.emplace_back(send->timeline == first ? send : receive,
                         send->timeline == first ? receive : send);
    }
  }
  std::stable_sort(sides.begin(), sides.end(),
                   [](const auto& a, const auto& b) { return a.first->end_ns < b.first->end_ns; });
  for (const auto& [here, there] : sides) {
    Arrival arrival;
    arrival.start_ns = {here->start_ns, there->start_ns};
    arrival.end_ns = {here->end_ns, there->end_ns};
    arrival.launch_ns = arrival.start_ns;
    arrivals.list.push_back(std::move(arrival));
  }
  arrivals.clocks = align_clocks(timelines, arrivals);
  if (!arrivals.clocks.why_not.empty()) {
    return false;
  }
  for (size_t i = 0; i < sides.size(); ++i) {
    const Arrival& arrival = arrivals.list[i];
    const auto& [here, there] = sides[i];
    std::tie(here->start_ns, there->start_ns) = std::tie(arrival.start_ns[0], arrival.start_ns[1]);
    std::tie(here->end_ns, there->end_ns) = std::tie(arrival.end_ns[0], arrival.end_ns[1]);
  }
  noise_ns = arrivals.noise_ns();
  return true;
}

}  // namespace

std::vector<MatchedMessage> matched_messages(std::span<const Timeline> timelines) {
  std::map<LinkEnds, Link> links = links_of(timelines);
  std::map<LinkEnds, std::vector<Link*>> pairs;  // both ways, by the lower rank
  for (auto& [ends, link] : links) {
    const auto& [communicator, from, to] = ends;
    if (is_of_one(link.sends) && is_of_one(link.receives)) {
      pairs[{communicator, std::min(from, to), std::max(from, to)}].push_back(&link);
    }
  }
  std::vector<MatchedMessage> result;
  for (const auto& [ends, ways] : pairs) {
    const size_t one = ways.front()->sends.front().side.timeline;
    const size_t other = ways.front()->receives.front().side.timeline;
    int64_t noise_ns = kNoiseNs;
    if (!are_of_two(ways) ||
        (!have_one_clock(timelines[one], timelines[other]) && !align(timelines, ways, noise_ns))) {
      continue;
    }
    for (const Link* const link : ways) {
      if (const std::optional<Shift> shift = best_shift(*link, noise_ns)) {
        match(*link, *shift, noise_ns, result);
      }
    }
  }
  return result;
}

}  // namespace traintrace
