#include "analyzer/timeline/replay/replay_meetings.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/collectives/collective_groups.h"
#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/collectives/messages.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace replay {
namespace {

// A kernel that takes part in a meeting.
struct Member {
  size_t process, work;
  int64_t start_ns, end_ns;  // by the meeting's clock
  bool waits;                // Attendance::waits
};

// Whether the kernel is all that a rank ran for a collective, which took that long by a clock that
// may run faster or slower.
bool is_one_kernel(const Work& kernel, int64_t collective_ns) {
  const int64_t ns = kernel.end_ns - kernel.start_ns;
  return std::abs(ns - collective_ns) <= clock_error_ns(ns);
}

class Meetings {
 public:
  Meetings(const Profile& profile, ReplayGraph& graph)
      : profile_(profile), graph_(graph), sides_(graph.processes.size()) {
    for (size_t i = 0; i < sides_.size(); ++i) {
      const std::vector<GpuWork>& works = profile.timelines[i].work;
      sides_[i].messages.resize(works.size());
      sides_[i].is_met.resize(works.size());
      for (size_t work = 0; work < works.size(); ++work) {
        if (works[work].kind == WorkKind::kCommunication) {
          sides_[i].kernels.try_emplace(works[work].correlation, work);
        }
      }
    }
  }

  void add_all() {
    for (const Arrivals& arrivals : profile_.groups) {
      if (arrivals.usable() && !arrivals.by_host) {
        for (const Arrival& arrival : arrivals.list) {
          add_collective(arrivals, arrival);
        }
      }
    }
    add_messages();
    for (size_t process = 0; process < sides_.size(); ++process) {
      add_attendances(process);
      add_unmet(process);
    }
  }

 private:
  // Of one process.
  struct Side {
    std::unordered_map<uint64_t, size_t> kernels;            // by correlation, the first
    std::vector<std::pair<size_t, Attendance>> attendances;  // with the work
    std::vector<uint32_t> messages;                          // by work: those that are matched
    std::vector<bool> is_met;                                // by work, in a collective
  };

  void add(const std::vector<Member>& members);
  void add_collective(const Arrivals& arrivals, const Arrival& arrival);
  std::optional<Member> member_of(const Arrivals& arrivals, const Arrival& arrival, size_t i) const;
  void add_messages();
  void add_attendances(size_t index);
  void add_unmet(size_t index);

  const Profile& profile_;
  ReplayGraph& graph_;
  std::vector<Side> sides_;  // by process
};

void Meetings::add(const std::vector<Member>& members) {
  Meeting meeting;
  meeting.last_start_ns = std::numeric_limits<int64_t>::min();
  int64_t first_end = std::numeric_limits<int64_t>::max();
  for (const Member& member : members) {
    sides_[member.process].attendances.push_back(
        {member.work,
         {static_cast<uint32_t>(graph_.meetings.size()),
          static_cast<uint32_t>(meeting.start_ns.size()), member.waits}});
    meeting.start_ns.push_back(member.start_ns);
    meeting.last_start_ns = std::max(meeting.last_start_ns, member.start_ns);
    first_end = member.waits ? std::min(first_end, member.end_ns) : first_end;
  }
  meeting.transfer_ns = std::max<int64_t>(0, first_end - meeting.last_start_ns);
  graph_.meetings.push_back(std::move(meeting));
}

// None: it ran several kernels for it, or clocks cannot be right.
std::optional<Member> Meetings::member_of(const Arrivals& arrivals, const Arrival& arrival,
                                          size_t i) const {
  const size_t process = arrivals.members[i];
  const auto kernel = sides_[process].kernels.find(arrival.correlation[i]);
  if (kernel == sides_[process].kernels.end() || arrival.correlation[i] == 0) {
    return std::nullopt;
  }
  const Work& work = graph_.processes[process].works[kernel->second];
  if (!is_one_kernel(work, arrival.end_ns[i] - arrival.start_ns[i]) ||
      sides_[process].is_met[kernel->second] || arrival.last_start() > arrival.end_ns[i]) {
    return std::nullopt;
  }
  return Member{process, kernel->second, arrival.start_ns[i], arrival.end_ns[i], true};
}

// Where all its ranks ran one kernel for it, and ends are known to belong together.
void Meetings::add_collective(const Arrivals& arrivals, const Arrival& arrival) {
  std::vector<Member> members;
  for (size_t i = 0; i < arrivals.members.size(); ++i) {
    const std::optional<Member> member = member_of(arrivals, arrival, i);
    if (!member) {
      return;
    }
    members.push_back(*member);
  }
  if (!arrival.is_known()) {
    return;
  }
  for (const Member& member : members) {
    sides_[member.process].is_met[member.work] = true;
  }
  add(members);
}

// All between two kernels are one meeting: each may send to the other.
void Meetings::add_messages() {
  std::vector<std::pair<Member, Member>> pairs;  // the lower process first
  for (const MatchedMessage& message : profile_.messages) {
    const MessageSide& send = message.send;
    const MessageSide& receive = message.receive;
    if (sides_[send.timeline].is_met[send.work] || sides_[receive.timeline].is_met[receive.work]) {
      continue;
    }
    ++sides_[send.timeline].messages[send.work];
    ++sides_[receive.timeline].messages[receive.work];
    const Member from = {send.timeline, send.work, send.start_ns, send.end_ns,
                         message.sender_waits};
    const Member to = {receive.timeline, receive.work, receive.start_ns, receive.end_ns, true};
    pairs.push_back(from.process < to.process ? std::pair(from, to) : std::pair(to, from));
  }
  const auto kernels_of = [](const std::pair<Member, Member>& pair) {
    return std::tuple(pair.first.process, pair.first.work, pair.second.process, pair.second.work);
  };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& a, const auto& b) { return kernels_of(a) < kernels_of(b); });
  for (size_t i = 0; i < pairs.size();) {
    auto [one, other] = pairs[i];
    for (const auto kernels = kernels_of(pairs[i]);
         i < pairs.size() && kernels_of(pairs[i]) == kernels; ++i) {
      one.waits = one.waits || pairs[i].first.waits;
      other.waits = other.waits || pairs[i].second.waits;
    }
    add({one, other});
  }
}

void Meetings::add_attendances(size_t index) {
  Process& process = graph_.processes[index];
  auto& attendances = sides_[index].attendances;
  std::stable_sort(attendances.begin(), attendances.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [work, attendance] : attendances) {
    Part& meetings = process.works[work].meetings;
    if (meetings.begin == meetings.end) {
      meetings = {process.attendances.size(), process.attendances.size()};
    }
    process.attendances.push_back(attendance);
    meetings.end = process.attendances.size();
  }
}

// Of the groups whose members are known and compared; those without a name are not told apart.
std::set<std::string_view> known_groups(const Profile& profile, size_t timeline) {
  std::set<std::string_view> names;
  for (const Arrivals& arrivals : profile.groups) {
    if (arrivals.usable() && !arrivals.group.empty() && arrivals.member(timeline)) {
      names.insert(arrivals.group);
    }
  }
  return names;
}

// Messages to itself are matched with no other rank.
size_t messages_to_others(std::span<const PeerMessage> messages) {
  return static_cast<size_t>(
      std::count_if(messages.begin(), messages.end(),
                    [](const PeerMessage& message) { return message.peer != message.rank; }));
}

void Meetings::add_unmet(size_t index) {
  const Timeline& timeline = profile_.timelines[index];
  const Side& side = sides_[index];
  const std::set<std::string_view> known = known_groups(profile_, index);
  const std::set<uint64_t> one_to_one = communicators_of_pairs(timeline);
  Process& process = graph_.processes[index];
  for (size_t work = 0; work < process.works.size(); ++work) {
    const Work& kernel = process.works[work];
    if (kernel.kind != WorkKind::kCommunication || side.is_met[work]) {
      continue;
    }
    const uint64_t correlation = timeline.work[work].correlation;
    const std::span<const PeerMessage> messages = messages_of(timeline, correlation);
    if (side.messages[work] != 0 && side.messages[work] == messages_to_others(messages)) {
      continue;
    }
    const CollectiveNote* const note = collective_note(timeline, correlation);
    const bool of_group = note != nullptr && note->group != kNoName &&
                          known.contains(timeline.names[note->group]) &&
                          !is_message(timeline, *note) && !is_within(messages, one_to_one);
    if (!of_group) {
      process.unmet_ns = added_within(process.unmet_ns, kernel.end_ns - kernel.start_ns);
    }
  }
}

}  // namespace
}  // namespace replay

void add_meetings(const Profile& profile, ReplayGraph& graph) {
  replay::Meetings(profile, graph).add_all();
}

bool knows_who_waits(const ReplayGraph& graph, const Profile& profile) {
  return std::all_of(profile.devices.begin(), profile.devices.end(),
                     [&](const DeviceProfile& device) {
                       return device.share(graph.processes[device.timeline].unmet_ns) < kWarnShare;
                     });
}

}  // namespace traintrace
