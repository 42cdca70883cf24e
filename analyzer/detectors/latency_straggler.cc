// Ranks that come late to collectives by what they do between them; and apart from these, the rank
// that was late when the recording began.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/latency_finding.h"

namespace traintrace {
namespace {

constexpr size_t kAgain = 3;           // collectives that it made late
constexpr size_t kMany = 20;           // recorded, to speak of a habit
constexpr double kHabit = 0.6;         // of these
constexpr int64_t kEntryNs = 500'000;  // a window that opens unevenly by less is as usual

// From the end of the first collective to that of the last.
int64_t span_of(const Arrivals& arrivals) {
  return arrivals.list.back().median_end() - arrivals.list.front().median_end();
}

Rank rank_of(const Profile& profile, const OwnLateness& lateness) {
  return {*profile.timelines[profile.arrivals.members[lateness.member]].rank};
}

bool is_straggler(const Arrivals& arrivals, const OwnLateness& lateness) {
  return lateness.times >= kAgain && static_cast<double>(lateness.charged_ns) >=
                                         kWarnShare * static_cast<double>(span_of(arrivals));
}

Finding straggler_finding(const Profile& profile, std::vector<OwnLateness> late) {
  const Arrivals& arrivals = profile.arrivals;
  std::stable_sort(late.begin(), late.end(), [](const OwnLateness& a, const OwnLateness& b) {
    return a.charged_ns > b.charged_ns;
  });
  Finding finding;
  finding.code = "latency.straggler";
  finding.severity = catalogue_row(finding.code)->severity;
  const size_t collectives = arrivals.list.size() - arrivals.contradicted;
  const bool habit =
      collectives > kMany && std::all_of(late.begin(), late.end(), [&](const OwnLateness& each) {
        return static_cast<double>(each.times) >= kHabit * static_cast<double>(collectives - 1);
      });
  finding.certainty = habit ? Certainty::kProof : Certainty::kLikely;
  for (const OwnLateness& each : late) {
    insert(finding.culprits, rank_of(profile, each));
    finding.evidence.push_back(fmt::format(
        "rank {} made {} of {} collectives late, by {:.3f} ms in all, on the host between them",
        rank_of(profile, each).value, each.times, collectives - 1,
        static_cast<double>(each.charged_ns) / 1e6));
  }
  for (const Timeline& timeline : profile.timelines) {
    if (!contains(finding.culprits, {*timeline.rank})) {
      finding.victims.push_back({*timeline.rank});
    }
  }
  finding.title = fmt::format(
      "{} came late to collectives again and again, by {:.2f} of {:.2f} ms{}",
      ranks_text(finding.culprits), static_cast<double>(late.front().charged_ns) / 1e6,
      static_cast<double>(span_of(arrivals)) / 1e6,
      collectives <= kMany ? fmt::format(", in the {} collectives recorded", collectives) : "");
  finding.values = {{"late_ns", late.front().charged_ns},
                    {"late_count", static_cast<int64_t>(late.front().times)},
                    {"collective_count", static_cast<int64_t>(collectives)}};
  name_waits(profile, finding);
  finding.evidence.push_back(
      "counted from the second collective on, without the time they waited for the GPU: what they "
      "entered the window with is not theirs");
  add_clocks(arrivals, finding);
  add_unknown(arrivals, finding);
  finding.advice =
      "compare what these ranks do between collectives with what the others do: data, CPU, NUMA";
  return finding;
}

}  // namespace

std::vector<Finding> find_stragglers(const Profile& profile) {
  const Arrivals& arrivals = profile.arrivals;
  if (!arrivals.usable() || arrivals.list.size() < 2) {
    return {};
  }
  std::vector<OwnLateness> late;
  for (const OwnLateness& each : own_lateness(arrivals)) {
    if (is_straggler(arrivals, each)) {
      late.push_back(each);
    }
  }
  // Of most, "late" means nothing.
  if (late.empty() || 2 * late.size() >= arrivals.members.size()) {
    return {};
  }
  return {straggler_finding(profile, std::move(late))};
}

std::vector<Finding> find_entry_skew(const Profile& profile) {
  const Arrivals& arrivals = profile.arrivals;
  if (!arrivals.knows_entry) {
    return {};
  }
  const std::vector<OwnLateness> all = own_lateness(arrivals);
  const auto last = std::max_element(
      all.begin(), all.end(),
      [](const OwnLateness& a, const OwnLateness& b) { return a.entry_ns < b.entry_ns; });
  if (last->entry_ns < kEntryNs || (arrivals.usable() && is_straggler(arrivals, *last))) {
    return {};
  }
  const Rank rank = rank_of(profile, *last);
  Finding finding;
  finding.code = "latency.entry-skew";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.title = fmt::format(
      "rank {} came to the first recorded collective {:.2f} ms after the median, and {}",
      rank.value, static_cast<double>(last->entry_ns) / 1e6,
      arrivals.usable() ? "was no straggler from there on"
                        : "whether it was late from there on cannot be said");
  finding.values = {{"entry_ns", last->entry_ns}};
  finding.sides = {{rank}};
  finding.evidence = {"what happened before the window is not recorded: no culprit"};
  name_first_waits(profile, finding);
  return {finding};
}

}  // namespace traintrace
