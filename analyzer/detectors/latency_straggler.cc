// Ranks that come late to collectives by what they do between them; and apart from these, the rank
// that was late when the recording began.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// From the end of the first collective to that of the last.
int64_t span_of(const Arrivals& arrivals) {
  return arrivals.list.back().median_end() - arrivals.list.front().median_end();
}

// A member that was late, in the group in which it cost most.
struct Straggler {
  const Arrivals* arrivals;
  OwnLateness lateness;
  Rank rank;

  size_t collectives() const { return arrivals->list.size() - arrivals->contradicted; }
};

Rank rank_of(const Profile& profile, const Arrivals& arrivals, const OwnLateness& lateness) {
  return {*profile.timelines[arrivals.members[lateness.member]].rank};
}

bool is_straggler(const Arrivals& arrivals, const OwnLateness& lateness) {
  return lateness.times >= kStragglerAgain &&
         static_cast<double>(lateness.charged_ns) >=
             kWarnShare * static_cast<double>(span_of(arrivals));
}

// Without a timeline of the GPU only a habit that costs much counts.
bool is_certain(const Arrivals& arrivals, const OwnLateness& lateness) {
  const auto collectives = static_cast<double>(arrivals.list.size() - 1);
  return arrivals.list.size() > kStragglerMany &&
         static_cast<double>(lateness.times) >= kStragglerHabit * collectives &&
         lateness.charged_ns >= kLeastByHostNs &&
         static_cast<double>(lateness.charged_ns) >=
             kWarnShareByHost * static_cast<double>(span_of(arrivals));
}

// Empty where most are late: then that means nothing.
std::vector<Straggler> stragglers_of(const Profile& profile, const Arrivals& arrivals) {
  std::vector<Straggler> late;
  if (!arrivals.usable() || arrivals.list.size() < 2) {
    return late;
  }
  for (const OwnLateness& each : own_lateness(arrivals)) {
    if (is_straggler(arrivals, each) && (!arrivals.by_host || is_certain(arrivals, each))) {
      late.push_back({&arrivals, each, rank_of(profile, arrivals, each)});
    }
  }
  return 2 * late.size() < arrivals.members.size() ? late : std::vector<Straggler>{};
}

// Of all groups, each rank once; who cost most first.
std::vector<Straggler> stragglers_of(const Profile& profile) {
  std::map<Rank, Straggler> worst;
  for (const Arrivals& arrivals : profile.groups) {
    for (const Straggler& late : stragglers_of(profile, arrivals)) {
      const auto [known, is_new] = worst.try_emplace(late.rank, late);
      if (!is_new && known->second.lateness.charged_ns < late.lateness.charged_ns) {
        known->second = late;
      }
    }
  }
  std::vector<Straggler> all;
  all.reserve(worst.size());
  for (const auto& [rank, late] : worst) {
    all.push_back(late);
  }
  std::stable_sort(all.begin(), all.end(), [](const Straggler& a, const Straggler& b) {
    return a.lateness.charged_ns > b.lateness.charged_ns;
  });
  return all;
}

// Who meets a straggler, and is none.
Ranks victims_of(const Profile& profile, const std::vector<Straggler>& late,
                 const Ranks& culprits) {
  Ranks victims;
  for (const Straggler& each : late) {
    for (const size_t member : each.arrivals->members) {
      const Rank rank{*profile.timelines[member].rank};
      if (!contains(culprits, rank)) {
        insert(victims, rank);
      }
    }
  }
  return victims;
}

bool is_habit(const Straggler& late) {
  return late.collectives() > kStragglerMany &&
         static_cast<double>(late.lateness.times) >=
             kStragglerHabit * static_cast<double>(late.collectives() - 1);
}

Finding straggler_finding(const Profile& profile, const std::vector<Straggler>& late) {
  const Straggler& worst = late.front();
  Finding finding;
  finding.code = "latency.straggler";
  finding.severity = catalogue_row(finding.code)->severity;
  const bool habit = std::all_of(late.begin(), late.end(), is_habit);
  finding.certainty = habit ? Certainty::kProof : Certainty::kLikely;
  for (const Straggler& each : late) {
    insert(finding.culprits, each.rank);
    finding.evidence.push_back(fmt::format(
        "rank {} delayed {} of {} collectives{} ({:.3f} ms in all); the time went to host code "
        "between them",
        each.rank.value, each.lateness.times, each.collectives() - 1,
        group_text(profile, *each.arrivals), static_cast<double>(each.lateness.charged_ns) / 1e6));
  }
  finding.victims = victims_of(profile, late, finding.culprits);
  finding.title = fmt::format("{} {}: {:.2f} of {:.2f} ms{}, by arriving late at collectives{}",
                              ranks_text(finding.culprits),
                              late.size() == 1 ? "is a straggler and delays the others"
                                               : "are stragglers and delay the others",
                              static_cast<double>(worst.lateness.charged_ns) / 1e6,
                              static_cast<double>(span_of(*worst.arrivals)) / 1e6,
                              late.size() == 1 ? "" : " for one of them",
                              worst.collectives() <= kStragglerMany
                                  ? fmt::format(" ({} recorded)", worst.collectives())
                                  : "");
  finding.values = {{"late_ns", worst.lateness.charged_ns},
                    {"late_count", static_cast<int64_t>(worst.lateness.times)},
                    {"collective_count", static_cast<int64_t>(worst.collectives())}};
  name_waits(profile, finding);
  finding.evidence.push_back(
      "counted from the second collective on, without the time they waited for the GPU; what they "
      "entered the window with is not counted");
  add_clocks(*worst.arrivals, finding);
  add_unknown(*worst.arrivals, finding);
  finding.advice =
      "compare what these ranks do between collectives with what the others do: data, CPU, NUMA";
  return finding;
}

}  // namespace

std::vector<Finding> find_stragglers(const Profile& profile) {
  const std::vector<Straggler> late = stragglers_of(profile);
  return late.empty() ? std::vector<Finding>{} : std::vector{straggler_finding(profile, late)};
}

std::vector<Finding> find_entry_skew(const Profile& profile) {
  const Arrivals* group = nullptr;
  OwnLateness last;
  for (const Arrivals& arrivals : profile.groups) {
    if (!arrivals.knows_entry) {
      continue;
    }
    for (const OwnLateness& each : own_lateness(arrivals)) {
      if (group == nullptr || each.entry_ns > last.entry_ns) {
        group = &arrivals;
        last = each;
      }
    }
  }
  if (group == nullptr || last.entry_ns < kEntryNs ||
      (group->usable() && is_straggler(*group, last))) {
    return {};
  }
  const Rank rank = rank_of(profile, *group, last);
  Finding finding;
  finding.code = "latency.entry-skew";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.title = fmt::format(
      "rank {} entered the first recorded collective{} {:.2f} ms after the median, and {}",
      rank.value, group_text(profile, *group), static_cast<double>(last.entry_ns) / 1e6,
      group->usable() ? "was no straggler from there on"
                      : "whether it was late from there on is unknown");
  finding.values = {{"entry_ns", last.entry_ns}};
  finding.sides = {{rank}};
  finding.evidence = {"what happened before the window is not recorded: no culprit"};
  name_first_waits(profile, finding);
  return {finding};
}

}  // namespace traintrace
