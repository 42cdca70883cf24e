// Without a timeline of the GPUs: hosts that enter collectives late again and again, where it is
// not known whether their GPUs still had work.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/lost_time/gpu_straggler.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

struct LateEntries {
  Rank rank;
  size_t times = 0;
  size_t collectives = 0;
  size_t delayed = 0;  // of these, by any host
  int64_t late_ns = 0;
  int64_t span_ns = 0;  // from the first entry to the last

  double share() const {
    return span_ns <= 0 ? 0 : static_cast<double>(late_ns) / static_cast<double>(span_ns);
  }
};

// Of each member.
std::vector<LateEntries> late_entries_of(const Profile& profile, const Arrivals& arrivals) {
  std::vector<LateEntries> members;
  members.reserve(arrivals.members.size());
  for (const size_t timeline : arrivals.members) {
    LateEntries& late = members.emplace_back();
    late.rank = {*profile.timelines[timeline].rank};
    late.collectives = arrivals.list.size() - 1;
    late.span_ns = arrivals.list.back().last_start() - arrivals.list.front().last_start();
  }
  for (size_t index = 1; index < arrivals.list.size(); ++index) {
    const std::vector<int64_t> all = host_lateness_at(arrivals, index);
    const int64_t last = *std::max_element(all.begin(), all.end());
    for (size_t i = 0; i < members.size(); ++i) {
      members[i].delayed += last >= arrivals.noise_ns() ? 1 : 0;
      if (all[i] >= arrivals.noise_ns() &&
          static_cast<double>(all[i]) >= kLateAsLast * static_cast<double>(last)) {
        ++members[i].times;
        members[i].late_ns = added_within(members[i].late_ns, all[i]);
      }
    }
  }
  return members;
}

bool is_worth_a_line(const LateEntries& late) {
  // A step may have many collectives of which its straggler delays the first alone.
  const bool is_most_of_all = late.share() >= kMostOfTimeByHost;
  const size_t of = is_most_of_all ? std::max(late.delayed, kStragglerMany) : late.collectives;
  return late.collectives >= kStragglerMany &&
         static_cast<double>(late.times) >= kStragglerHabit * static_cast<double>(of) &&
         late.late_ns >= kLeastByHostNs && late.share() >= kWarnShareByHost;
}

Finding late_entry_finding(const LateEntries& late) {
  Finding finding;
  finding.code = "latency.straggler";
  finding.severity = Severity::kInfo;
  finding.certainty = Certainty::kPossible;
  finding.title = fmt::format(
      "the host of rank {} enters {} of {} collectives late, by {:.3f} ms on average; whether the "
      "others waited for it, or its GPU was busy meanwhile, was not recorded",
      late.rank.value, late.times, late.collectives,
      static_cast<double>(late.late_ns) / 1e6 / static_cast<double>(late.times));
  finding.sides = {{late.rank}};
  finding.values = {{"late_ns", late.late_ns},
                    {"late_count", static_cast<int64_t>(late.times)},
                    {"collective_count", static_cast<int64_t>(late.collectives + 1)}};
  finding.evidence = {fmt::format(
      "beyond what the others' hosts need between collectives, without the time in calls that "
      "wait: {} of {}",
      ms_text(late.late_ns), ms_text(late.span_ns))};
  finding.advice = "rerun with TRAINTRACE_GPU_TIMELINE=cupti";
  return finding;
}

}  // namespace

std::vector<Finding> find_late_entries(const Profile& profile) {
  std::vector<LateEntries> all;
  const std::vector<Finding> known = find_stragglers(profile);
  for (const Arrivals& arrivals : profile.groups) {
    if (!arrivals.usable() || !arrivals.by_host || arrivals.list.size() < 2) {
      continue;
    }
    for (const LateEntries& late : late_entries_of(profile, arrivals)) {
      const bool is_known = !known.empty() && contains(known.front().culprits, late.rank);
      if (is_worth_a_line(late) && !is_known) {
        all.push_back(late);
      }
    }
  }
  const auto worst = std::max_element(
      all.begin(), all.end(),
      [](const LateEntries& a, const LateEntries& b) { return a.late_ns < b.late_ns; });
  return worst == all.end() ? std::vector<Finding>{} : std::vector{late_entry_finding(*worst)};
}

}  // namespace traintrace
