#include "analyzer/model/lateness.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "analyzer/model/activity.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/ending.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// Machines that are busy are slow for seconds; that is no finding.
constexpr TimeNs kLeast = 5'000'000'000;

// The next collective or message after `time`, on whatever communicator; 0: none is kept.
TimeNs next_operation(const Run& run, Rank rank, TimeNs time) {
  TimeNs next = 0;
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, rank);
    if (member == nullptr) {
      continue;
    }
    for (const OperationText& operation : text_of(run, *member).recent) {
      if (operation.enter > time) {
        next = next == 0 ? operation.enter : std::min(next, operation.enter);
        break;
      }
    }
  }
  return next;
}

struct Arrival {
  TimeNs time = 0;
  Rank rank;
  friend auto operator<=>(const Arrival&,
                          const Arrival&) = default;  // NOLINT(modernize-use-nullptr)
};

// Of all members, by time; empty: not all are known, or not all need each other.
std::vector<Arrival> arrivals(const Run& run, const Communicator& communicator, uint64_t sequence) {
  std::vector<Arrival> found;
  for (const Member& member : communicator.members) {
    const OperationText* operation = collective_at(text_of(run, member), sequence);
    if (operation == nullptr || (operation->flags & format::kReplayed) != 0 ||
        direction_of(call_name(run.processes[member.process], operation->call)) !=
            Direction::kAllToAll) {
      return {};
    }
    found.push_back({operation->enter, member.rank});
  }
  std::sort(found.begin(), found.end());
  return found;
}

TimeNs skew_in(const Run& run, const Communicator& communicator) {
  TimeNs worst = 0;
  for (const Member& a : communicator.members) {
    worst = std::max(worst, skew_between(run, run.processes[a.process].host,
                                         run.processes[communicator.members[0].process].host));
  }
  return worst;
}

// Those behind the widest gap, if they are fewer and the others waited for them.
std::optional<Lateness> lateness_at(const Run& run, size_t index, uint64_t sequence) {
  const Communicator& communicator = run.communicators[index];
  const std::vector<Arrival> all = arrivals(run, communicator, sequence);
  size_t split = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    if (split == 0 ||
        elapsed(all[i - 1].time, all[i].time) > elapsed(all[split - 1].time, all[split].time)) {
      split = i;
    }
  }
  if (split == 0 || all.size() - split >= split ||
      elapsed(all[split - 1].time, all[split].time) - skew_in(run, communicator) <
          std::max(run.hang_after, kLeast)) {
    return std::nullopt;
  }
  Lateness lateness;
  lateness.communicator = index;
  lateness.sequence = sequence;
  lateness.from = all[split - 1].time;
  lateness.until = all[split].time;
  for (size_t i = 0; i < all.size(); ++i) {
    insert(i < split ? lateness.others : lateness.late, all[i].rank);
    const TimeNs next = i < split ? next_operation(run, all[i].rank, all[i].time) : 0;
    // It ran ahead: that the late one's call came later harmed nobody.
    if (next != 0 && next < lateness.until) {
      return std::nullopt;
    }
  }
  return lateness;
}

void add_lateness_of(const Run& run, size_t index, std::vector<Lateness>& found) {
  const Communicator& communicator = run.communicators[index];
  if (communicator.members.size() < 3 || !communicator.absent.empty()) {
    return;
  }
  for (const OperationText& operation : text_of(run, communicator.members.front()).recent) {
    // Into the first one ranks come as their start took.
    if (!operation.collective || operation.sequence < 2) {
      continue;
    }
    if (auto lateness = lateness_at(run, index, operation.sequence)) {
      found.push_back(std::move(*lateness));
    }
  }
}

bool overlap(const Lateness& a, const Lateness& b) {
  return a.from < b.until && b.from < a.until;
}

}  // namespace

std::vector<Lateness> find_lateness(const Run& run) {
  std::vector<Lateness> all;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    add_lateness_of(run, i, all);
  }
  // Where one rank was late, those whom it kept waiting are late elsewhere.
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
    const auto same = std::find_if(roots.begin(), roots.end(), [&](const Lateness& root) {
      return root.late == lateness.late && root.communicator == lateness.communicator;
    });
    same == roots.end() ? roots.push_back(std::move(lateness)) : void(++same->times);
  }
  return roots;
}

}  // namespace traintrace
