// A rank that stops now and then, and each time another one: collectives wait for all of them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

// Of one collective.
struct LoneStall {
  size_t collective;
  std::vector<size_t> members;  // that stopped before it
  int64_t ns;                   // the longest
};

struct Stalls {
  std::vector<LoneStall> list;
  size_t late = 0;  // collectives that were late, whether some ranks stopped or all jitter
  int64_t ns = 0;

  std::map<size_t, size_t> by_member() const {
    std::map<size_t, size_t> counts;
    for (const LoneStall& stall : list) {
      for (const size_t member : stall.members) {
        ++counts[member];
      }
    }
    return counts;
  }
};

// Fewer than half, each of them far later than any other member is late or early.  Empty: all
// jitter.
std::vector<size_t> stopped_of(const std::vector<int64_t>& late) {
  std::vector<size_t> order(late.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return late[a] > late[b]; });
  const int64_t earliest = late[order.back()];
  for (size_t count = 1; 2 * count < order.size(); ++count) {
    const int64_t least = late[order[count - 1]] / kAlone;
    const int64_t early = count == 1 ? 0 : -earliest;  // of one alone it is known who was late
    if (late[order[count]] <= least && early <= least) {
      order.resize(count);
      return order;
    }
  }
  return {};
}

Stalls stalls_of(const Arrivals& arrivals) {
  Stalls stalls;
  for (size_t i = 1; i < arrivals.list.size(); ++i) {
    if (!arrivals.list[i].is_known()) {
      continue;
    }
    const std::vector<int64_t> late = lateness_at(arrivals, i);
    const int64_t latest = *std::max_element(late.begin(), late.end());
    if (latest < std::max(kStallNs, arrivals.noise_ns())) {
      continue;
    }
    ++stalls.late;
    if (std::vector<size_t> stopped = stopped_of(late); !stopped.empty()) {
      stalls.list.push_back({i, std::move(stopped), latest});
      stalls.ns = added_within(stalls.ns, latest);
    }
  }
  return stalls;
}

bool is_rotating(const Arrivals& arrivals, const Stalls& stalls) {
  const std::map<size_t, size_t> counts = stalls.by_member();
  size_t most = 0;
  size_t again = 0;
  size_t each = 0;
  for (const auto& [member, count] : counts) {
    most = std::max(most, count);
    again += count > 1 ? 1 : 0;
    each += count;
  }
  const auto all = static_cast<double>(stalls.list.size());
  const int64_t span = arrivals.list.back().median_end() - arrivals.list.front().median_end();
  return stalls.list.size() >= kFewestStalls && again >= kStallRanks &&
         2 * again >= arrivals.members.size() &&
         all >= kMostlyAlone * static_cast<double>(stalls.late) &&
         static_cast<double>(most) <= kMostOfOne * static_cast<double>(each) &&
         static_cast<double>(stalls.ns) >= kWarnShare * static_cast<double>(span);
}

// From one stall to the next, whoever has it.
int64_t period_of(const Arrivals& arrivals, const Stalls& stalls) {
  std::vector<int64_t> times;
  for (size_t i = 1; i < stalls.list.size(); ++i) {
    times.push_back(arrivals.list[stalls.list[i].collective].last_start() -
                    arrivals.list[stalls.list[i - 1].collective].last_start());
  }
  return upper_median(std::move(times));
}

Finding finding_of(const Profile& profile, const Arrivals& arrivals, const Stalls& stalls) {
  std::vector<int64_t> lengths;
  for (const LoneStall& stall : stalls.list) {
    lengths.push_back(stall.ns);
  }
  const int64_t period = period_of(arrivals, stalls);
  const int64_t length = upper_median(std::move(lengths));
  const std::map<size_t, size_t> counts = stalls.by_member();
  Finding finding;
  finding.code = "latency.rotating-stall";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.certainty = Certainty::kLikely;
  const bool alone = std::all_of(stalls.list.begin(), stalls.list.end(),
                                 [](const LoneStall& stall) { return stall.members.size() == 1; });
  finding.title =
      fmt::format("{} of {} collectives{} waited for {} of {}: {} in all", stalls.list.size(),
                  arrivals.list.size() - 1, group_text(profile, arrivals),
                  alone ? "one rank, each time another" : "one rank or a few, each time others",
                  counts.size(), ms_text(stalls.ns));
  finding.values = {{"late_ns", stalls.ns},
                    {"late_count", static_cast<int64_t>(stalls.list.size())},
                    {"median_ns", length},
                    {"period_ns", period}};
  std::string who;
  for (const auto& [member, count] : counts) {
    who += fmt::format("{}rank {} {} times", who.empty() ? "" : ", ",
                       *profile.timelines[arrivals.members[member]].rank, count);
  }
  finding.evidence = {who, fmt::format("one stall in {} at the median, each for {} on the host",
                                       ms_text(period), ms_text(length))};
  name_waits(profile, finding, true);
  add_clocks(arrivals, finding);
  add_unknown(arrivals, finding);
  return finding;
}

}  // namespace

std::vector<Finding> find_rotating_stall(const Profile& profile) {
  const Arrivals* worst = nullptr;
  Stalls most;
  for (const Arrivals& arrivals : profile.groups) {
    if (!arrivals.usable() || arrivals.list.size() < 2 || arrivals.members.size() < kStallRanks) {
      continue;
    }
    Stalls stalls = stalls_of(arrivals);
    if (!stalls.list.empty() && is_rotating(arrivals, stalls) && stalls.ns > most.ns) {
      worst = &arrivals;
      most = std::move(stalls);
    }
  }
  if (worst == nullptr) {
    return {};
  }
  Finding finding = finding_of(profile, *worst, most);
  finding.advice =
      "what all ranks do now and then at their own times: Python's garbage collector (collect on "
      "all ranks at the same step: gc.freeze, gc.disable), checkpoints, logs";
  return {finding};
}

}  // namespace traintrace
