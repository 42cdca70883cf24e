#include "analyzer/model/waiting/lateness.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/peers.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

// The last collective or message before `time`, on whatever communicator; 0: none is kept.
TimeNs last_operation(const Run& run, Rank rank, TimeNs time) {
  TimeNs last = 0;
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, rank);
    if (member == nullptr) {
      continue;
    }
    const std::vector<OperationText>& recent = text_of(run, *member).recent;
    for (auto at = recent.rbegin(); at != recent.rend(); ++at) {
      if (at->enter < time) {
        last = std::max(last, at->enter);
        break;
      }
    }
  }
  return last;
}

struct Arrival {
  TimeNs time = 0;
  Rank rank;
  friend auto operator<=>(const Arrival&,
                          const Arrival&) = default;  // NOLINT(modernize-use-nullptr)
};

// Of all members at one collective.
struct Arrivals {
  uint64_t sequence = 0;
  std::vector<Arrival> all;  // by time; empty: not all are known, or not all need each other
};

Arrivals arrivals_at(const Run& run, const Communicator& communicator, uint64_t sequence) {
  Arrivals found{sequence, {}};
  for (const Member& member : communicator.members) {
    const OperationText* operation = collective_at(text_of(run, member), sequence);
    if (operation == nullptr || (operation->flags & format::kReplayed) != 0 ||
        direction_of(call_name(run.processes[member.process], operation->call)) !=
            Direction::kAllToAll) {
      return {sequence, {}};
    }
    found.all.push_back({operation->enter, member.rank});
  }
  std::sort(found.all.begin(), found.all.end());
  return found;
}

std::vector<Arrivals> kept_arrivals(const Run& run, const Communicator& communicator,
                                    FirstCollective first) {
  const uint64_t from = first == FirstCollective::kCounted ? 1 : 2;
  std::vector<Arrivals> kept;
  for (const OperationText& operation : text_of(run, communicator.members.front()).recent) {
    if (operation.collective && operation.sequence >= from) {
      kept.push_back(arrivals_at(run, communicator, operation.sequence));
    }
  }
  return kept;
}

TimeNs skew_in(const Run& run, const Communicator& communicator) {
  TimeNs worst = 0;
  for (const Member& a : communicator.members) {
    worst = std::max(worst, uncertainty_between(run, run.processes[a.process],
                                                run.processes[communicator.members[0].process]));
  }
  return worst;
}

// From the last of the others to the first of them; negative if that came earlier.
TimeNs behind_others(const Arrivals& arrivals, const Ranks& late) {
  TimeNs first = std::numeric_limits<TimeNs>::max();
  TimeNs last = 0;
  for (const Arrival& arrival : arrivals.all) {
    if (contains(late, arrival.rank)) {
      first = std::min(first, arrival.time);
    } else {
      last = std::max(last, arrival.time);
    }
  }
  return elapsed(last, first);
}

// Where clocks of several hosts are compared: who is behind each time may just have another clock.
TimeNs always_behind(const std::vector<Arrivals>& kept, const Lateness& lateness) {
  TimeNs least = lateness.by();
  for (const Arrivals& arrivals : kept) {
    if (!arrivals.all.empty()) {
      least = std::min(least, behind_others(arrivals, lateness.late));
    }
  }
  return std::max<TimeNs>(least, 0);
}

// When the last of those came whom the member needed in that operation; `until`: not known.
TimeNs answered(const Run& run, const Communicator& communicator, const Member& member,
                const OperationText& operation, TimeNs until) {
  TimeNs last = 0;
  const auto add = [&](const Member& other, const OperationText* part, bool came) {
    const std::vector<OperationText>& recent = text_of(run, other).recent;
    last = std::max(last, part != nullptr ? part->enter
                          : !came || recent.empty()
                              ? until
                              : recent.front().enter);  // before all that is kept
  };
  if (!operation.collective) {
    const Member* peer = member_at(communicator, operation.peer);
    if (peer == nullptr || operation.sequence == 0) {
      return until;
    }
    const std::vector<OperationText>& recent = text_of(run, *peer).recent;
    const auto part = std::find_if(recent.begin(), recent.end(), [&](const OperationText& other) {
      return !other.collective && other.receive != operation.receive &&
             other.peer == member.local_rank && other.sequence == operation.sequence;
    });
    add(*peer, part == recent.end() ? nullptr : &*part,
        has_posted(run, *peer, !operation.receive, member.local_rank, operation.sequence));
    return last;
  }
  for (const Member& other : communicator.members) {
    if (other.rank != member.rank) {
      add(other, collective_at(text_of(run, other), operation.sequence),
          text_of(run, other).collectives >= operation.sequence);
    }
  }
  return last;
}

// For how long of that time others may have held up the rank, in what it had entered.
TimeNs held_up_in(const Run& run, Rank rank, const Span& time) {
  std::vector<Span> spans;
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, rank);
    if (member == nullptr || communicator.size == 1) {
      continue;
    }
    const std::vector<OperationText>& recent = text_of(run, *member).recent;
    bool collective = false;  // of those before that time the newest is answered last
    for (auto at = recent.rbegin(); at != recent.rend(); ++at) {
      constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
      if (at->enter < time.end_ns && (at->flags & kNot) == 0 && !(at->collective && collective)) {
        collective = collective || (at->collective && at->enter <= time.begin_ns);
        spans.push_back({at->enter, answered(run, communicator, *member, *at, time.end_ns)});
      }
    }
  }
  return length_ns(within(united(std::move(spans)), time));
}

// Those behind the widest gap, if they are fewer; none: there is no gap.
std::optional<Lateness> behind_widest_gap(const Arrivals& arrivals) {
  const std::vector<Arrival>& all = arrivals.all;
  size_t split = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    if (split == 0 ||
        elapsed(all[i - 1].time, all[i].time) > elapsed(all[split - 1].time, all[split].time)) {
      split = i;
    }
  }
  if (split == 0 || all.size() - split >= split) {
    return std::nullopt;
  }
  Lateness lateness;
  lateness.sequence = arrivals.sequence;
  lateness.from = all[split - 1].time;
  lateness.until = all[split].time;
  for (size_t i = 0; i < all.size(); ++i) {
    insert(i < split ? lateness.others : lateness.late, all[i].rank);
  }
  return lateness;
}

// As long as one of the others went on, that the late one's call had not come harmed nobody.  What
// the clock of another host shows as just before may have come of it.
TimeNs stopped_at(const Run& run, const Lateness& lateness) {
  TimeNs stopped = lateness.from;
  for (const Rank rank : lateness.others) {
    stopped = std::max(stopped, last_operation(run, rank, lateness.until - kClockSkewTolerated));
  }
  return stopped;
}

std::optional<Lateness> lateness_at(const Run& run, size_t index, const Arrivals& arrivals,
                                    const std::vector<Arrivals>& kept) {
  const Communicator& communicator = run.communicators[index];
  std::optional<Lateness> found = behind_widest_gap(arrivals);
  TimeNs least = std::max(run.hang_after, kLateAtLeast);
  if (!found || found->by() - skew_in(run, communicator) < least) {
    return std::nullopt;
  }
  found->from = stopped_at(run, *found);
  if (found->by() - skew_in(run, communicator) < least) {
    return std::nullopt;
  }
  if (!are_on_one_host(run, communicator)) {
    const TimeNs always = always_behind(kept, *found);
    if (found->by() - always < least) {
      return std::nullopt;
    }
    least += always;
  }
  found->communicator = index;
  // Whom others held up meanwhile comes no later than they let it.
  std::erase_if(found->late, [&](Rank rank) {
    const bool held_up = found->by() - held_up_in(run, rank, {found->from, found->until}) < least;
    if (held_up) {
      insert(found->held_up, rank);
    }
    return held_up;
  });
  return found->late.empty() ? std::nullopt : found;
}

void add_lateness_of(const Run& run, size_t index, FirstCollective first,
                     std::vector<Lateness>& found) {
  const Communicator& communicator = run.communicators[index];
  if (!communicator.absent.empty()) {
    return;
  }
  const std::vector<Arrivals> kept = kept_arrivals(run, communicator, first);
  for (const Arrivals& arrivals : kept) {
    if (auto lateness = lateness_at(run, index, arrivals, kept)) {
      found.push_back(std::move(*lateness));
    }
  }
}

bool overlap(const Lateness& a, const Lateness& b) {
  return a.from < b.until && b.from < a.until;
}

}  // namespace

bool are_on_one_host(const Run& run, const Communicator& communicator) {
  const std::vector<Member>& members = communicator.members;
  const std::string& first = run.processes[members.front().process].host;
  return !first.empty() && std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return run.processes[member.process].host == first;
  });
}

std::vector<Lateness> find_all_lateness(const Run& run, FirstCollective first) {
  std::vector<Lateness> all;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    add_lateness_of(run, i, first, all);
  }
  return all;
}

std::vector<Lateness> find_lateness(const Run& run) {
  std::vector<Lateness> all = find_all_lateness(run, FirstCollective::kLeftOut);
  // Where one rank was late, those whom it kept waiting may be late elsewhere.
  std::stable_sort(all.begin(), all.end(), [](const Lateness& a, const Lateness& b) {
    return std::tuple(a.late.size(), -a.by(), a.from) < std::tuple(b.late.size(), -b.by(), b.from);
  });
  std::vector<Lateness> roots;
  std::vector<Lateness> counted;
  for (Lateness& lateness : all) {
    if (std::any_of(counted.begin(), counted.end(),
                    [&](const Lateness& other) { return overlap(other, lateness); })) {
      continue;
    }
    counted.push_back(lateness);
    lateness.alone = std::all_of(all.begin(), all.end(), [&](const Lateness& other) {
      return !overlap(other, lateness) || other.late == lateness.late;
    });
    const auto same = std::find_if(roots.begin(), roots.end(), [&](const Lateness& root) {
      return root.late == lateness.late && root.communicator == lateness.communicator;
    });
    same == roots.end() ? roots.push_back(lateness) : void(++same->times);
  }
  return roots;
}

}  // namespace traintrace
