// A rank that stops now and then, and each time another one: collectives wait for all of them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

struct LongPause {
  size_t collective;
  size_t member;
  int64_t ns;
};

struct Stalls {
  std::vector<LongPause> list;
  size_t late = 0;  // collectives that somebody made late, alone or not
  int64_t ns = 0;

  std::map<size_t, size_t> by_member() const {
    std::map<size_t, size_t> counts;
    for (const LongPause& stall : list) {
      ++counts[stall.member];
    }
    return counts;
  }
};

Stalls stalls_of(const Arrivals& arrivals) {
  Stalls stalls;
  for (size_t i = 1; i < arrivals.list.size(); ++i) {
    if (!arrivals.list[i].is_known()) {
      continue;
    }
    const std::vector<int64_t> late = lateness_at(arrivals, i);
    const auto latest = std::max_element(late.begin(), late.end());
    if (*latest < std::max(kStallNs, arrivals.noise_ns())) {
      continue;
    }
    ++stalls.late;
    int64_t next = 0;
    for (auto each = late.begin(); each != late.end(); ++each) {
      next = each == latest ? next : std::max(next, *each);
    }
    if (*latest / kAlone >= next) {
      stalls.list.push_back({i, static_cast<size_t>(latest - late.begin()), *latest});
      stalls.ns = std::min<int64_t>(stalls.ns + *latest, int64_t{1} << 62);
    }
  }
  return stalls;
}

bool is_rotating(const Arrivals& arrivals, const Stalls& stalls) {
  const std::map<size_t, size_t> counts = stalls.by_member();
  size_t most = 0;
  size_t again = 0;
  for (const auto& [member, count] : counts) {
    most = std::max(most, count);
    again += count > 1 ? 1 : 0;
  }
  const auto all = static_cast<double>(stalls.list.size());
  const int64_t span = arrivals.list.back().median_end() - arrivals.list.front().median_end();
  return stalls.list.size() >= kFewestStalls && again >= kStallRanks &&
         2 * again >= arrivals.members.size() &&
         all >= kMostlyAlone * static_cast<double>(stalls.late) &&
         static_cast<double>(most) <= kMostOfOne * all &&
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
  for (const LongPause& stall : stalls.list) {
    lengths.push_back(stall.ns);
  }
  const int64_t period = period_of(arrivals, stalls);
  const int64_t length = upper_median(std::move(lengths));
  const std::map<size_t, size_t> counts = stalls.by_member();
  Finding finding;
  finding.code = "latency.rotating-stall";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.certainty = Certainty::kLikely;
  finding.title =
      fmt::format("{} of {} collectives{} waited for one rank, each time another of {}: {} in all",
                  stalls.list.size(), arrivals.list.size() - 1, group_text(profile, arrivals),
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
