// Ranks that come late to collectives by what they do between them; and apart from these, the rank
// that was late when the recording began.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/lost_time/gpu_straggler.h"
#include "analyzer/detectors/lost_time/host_habit.h"
#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/pauses.h"
#include "analyzer/detectors/lost_time/straggler_cost.h"
#include "analyzer/detectors/lost_time/waits_for_culprits.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/chance.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

// From the end of the first collective to that of the last.
int64_t span_of(const Arrivals& arrivals) {
  return arrivals.list.back().median_end() - arrivals.list.front().median_end();
}

// A member that was late, in the group in which it cost most.
struct Straggler {
  const Arrivals* arrivals;
  size_t member;
  Rank rank;
  int64_t charged_ns = 0;
  size_t times = 0;
  size_t collectives = 0;                     // from the second on
  std::optional<WorkDifference> by_gpu = {};  // none: its host was late
};

Rank rank_of(const Profile& profile, const Arrivals& arrivals, size_t member) {
  return {*profile.timelines[arrivals.members[member]].rank};
}

// Leaves a member charged with those of OwnLateness::charges, by their places.
void keep_charges(OwnLateness& lateness, const std::function<bool(size_t)>& is_kept) {
  std::vector<int64_t> charges;
  std::vector<size_t> charged_at;
  lateness.charged_ns = 0;
  for (size_t i = 0; i < lateness.charges.size(); ++i) {
    if (is_kept(i)) {
      charges.push_back(lateness.charges[i]);
      charged_at.push_back(lateness.charged_at[i]);
      lateness.charged_ns = added_within(lateness.charged_ns, lateness.charges[i]);
    }
  }
  lateness.times = charges.size();
  lateness.charges = std::move(charges);
  lateness.charged_at = std::move(charged_at);
}

// Without what its GPU paused for: a checkpoint or an evaluation on this rank alone.
OwnLateness without_pauses(const Profile& profile, const Arrivals& arrivals, OwnLateness lateness) {
  const size_t group = static_cast<size_t>(&arrivals - profile.groups.data());
  const auto device =
      std::find_if(profile.devices.begin(), profile.devices.end(), [&](const DeviceProfile& each) {
        return each.timeline == arrivals.members[lateness.member];
      });
  const Spans paused = device == profile.devices.end() ? Spans() : spans_of_returning(*device);
  if (paused.empty()) {
    return lateness;
  }
  std::map<size_t, int64_t> came;  // by collective
  for (const CollectiveWait& wait : device->waits) {
    if (wait.group == group) {
      came[wait.collective] = wait.at_ns;
    }
  }
  keep_charges(lateness, [&](size_t i) {
    const int64_t late_ns = lateness.charges[i];
    const auto at = came.find(lateness.charged_at[i]);
    return at == came.end() ||
           2 * length_ns(within(paused, {at->second - late_ns, at->second})) < late_ns;
  });
  return lateness;
}

// So long that the `kStragglerAgain`th of its kind is no measure of it: that is a pause.
std::function<bool(int64_t)> is_pause_among(std::vector<int64_t> lengths) {
  const auto least = lengths.begin() + (kStragglerAgain - 1);
  std::nth_element(lengths.begin(), least, lengths.end(), std::greater<>());
  return [usual = *least](int64_t ns) { return ns / kPauseTimes > usual; };
}

// Of parts of the recording with as many collectives each: lateness in one or two of ten is a
// burst, as in a start, and not what the rank always does.
void leave_out_bursts(const Arrivals& arrivals, OwnLateness& lateness) {
  std::vector<int64_t> late_in(kStretches, 0);
  const auto part_of = [&](size_t i) {
    return (lateness.charged_at[i] - 1) * kStretches / (arrivals.list.size() - 1);
  };
  for (size_t i = 0; i < lateness.charges.size(); ++i) {
    late_in[part_of(i)] = added_within(late_in[part_of(i)], lateness.charges[i]);
  }
  const std::function<bool(int64_t)> is_burst = is_pause_among(late_in);
  keep_charges(lateness, [&](size_t i) { return !is_burst(late_in[part_of(i)]); });
}

// Without what happened once: so much longer than what comes again that it is a pause.  What most
// others stall at other times is set off against it.
OwnLateness again_and_again(const Arrivals& arrivals, OwnLateness lateness) {
  if (lateness.charges.size() < kStragglerAgain) {
    return lateness;
  }
  const std::function<bool(int64_t)> is_pause = is_pause_among(lateness.charges);
  keep_charges(lateness, [&](size_t i) { return !is_pause(lateness.charges[i]); });
  leave_out_bursts(arrivals, lateness);
  std::erase_if(lateness.spared, is_pause);
  lateness.times =
      lateness.charges.size() - std::min(lateness.charges.size(), lateness.spared.size());
  for (const int64_t spared : lateness.spared) {
    lateness.charged_ns = std::max<int64_t>(0, lateness.charged_ns - spared);
  }
  return lateness;
}

bool is_straggler(const Arrivals& arrivals, const OwnLateness& lateness) {
  return lateness.times >= kStragglerAgain &&
         static_cast<double>(lateness.charged_ns) >=
             kWarnShare * static_cast<double>(span_of(arrivals));
}

// Neither what happened once nor what latency.pause says, which is of GPUs only.
OwnLateness habitual_lateness(const Profile& profile, const Arrivals& arrivals,
                              const OwnLateness& lateness) {
  const OwnLateness again = again_and_again(arrivals, lateness);
  return arrivals.by_host || !is_straggler(arrivals, again)
             ? again
             : again_and_again(arrivals, without_pauses(profile, arrivals, lateness));
}

// Without a timeline of the GPU only a habit that costs much counts.
bool is_certain(const Arrivals& arrivals, const OwnLateness& lateness) {
  return is_host_habit(arrivals, lateness) && lateness.charged_ns >= kLeastByHostNs &&
         static_cast<double>(lateness.charged_ns) >=
             kWarnShareByHost * static_cast<double>(span_of(arrivals));
}

// Whether most others were late by as much at other times, and this one no more often than chance
// would have it: then it is none of them.
bool is_as_others(const std::vector<OwnLateness>& all, const OwnLateness& lateness) {
  const int64_t usual = usual_lateness(lateness.charges);
  size_t others = 0;  // that were so late
  size_t times = 0;   // how often
  size_t own = 0;
  for (const OwnLateness& each : all) {
    const int64_t as_late =
        std::count_if(each.charges.begin(), each.charges.end(), [&](int64_t charge) {
          return static_cast<double>(charge) >= kLateAsLast * static_cast<double>(usual);
        });
    const bool is_own = each.member == lateness.member;
    others += !is_own && as_late != 0 ? 1 : 0;
    times += static_cast<size_t>(as_late);
    own = is_own ? static_cast<size_t>(as_late) : own;
  }
  return 2 * others >= all.size() - 1 &&
         chance_of(own, times, 1.0 / static_cast<double>(all.size())) >= kStragglerChance;
}

std::vector<Straggler> stragglers_by_host(const Profile& profile, const Arrivals& arrivals) {
  std::vector<Straggler> late;
  const std::vector<OwnLateness> members = own_lateness(arrivals);
  for (const OwnLateness& all : members) {
    const OwnLateness each = habitual_lateness(profile, arrivals, all);
    if (is_straggler(arrivals, each) && !is_as_others(members, all) &&
        (!arrivals.by_host || is_certain(arrivals, each))) {
      late.push_back({&arrivals, each.member, rank_of(profile, arrivals, each.member),
                      each.charged_ns, each.times,
                      arrivals.list.size() - arrivals.contradicted - 1});
    }
  }
  return late;
}

// Empty where most are late: then that means nothing.
std::vector<Straggler> stragglers_of(const Profile& profile, const Arrivals& arrivals) {
  if (!arrivals.usable() || arrivals.list.size() < 2) {
    return {};
  }
  std::vector<Straggler> late = stragglers_by_host(profile, arrivals);
  if (arrivals.members.size() == 2) {
    late.clear();  // one of two is always the later one
  }
  for (const GpuStraggler& each : gpu_stragglers(profile, arrivals)) {
    const Rank rank = rank_of(profile, arrivals, each.lateness.member);
    const Straggler straggler = {
        &arrivals,           each.lateness.member, rank,           each.lateness.charged_ns,
        each.lateness.times, each.collectives,     each.difference};
    const auto known = std::find_if(late.begin(), late.end(),
                                    [&](const Straggler& other) { return other.rank == rank; });
    if (known == late.end()) {
      late.push_back(straggler);
    } else if (known->charged_ns < straggler.charged_ns) {
      *known = straggler;
    }
  }
  const bool are_few = late.size() < 2 || 2 * late.size() < arrivals.members.size();
  return are_few ? late : std::vector<Straggler>{};
}

// Nobody delays others by more than the one of them that waited longest.
int64_t longest_wait(const Arrivals& arrivals, size_t late) {
  int64_t longest = 0;
  for (const OwnLateness& each : own_lateness(arrivals)) {
    longest = each.member == late ? longest : std::max(longest, each.waited_ns);
  }
  return longest;
}

// Whether a rank waits for others elsewhere: it then comes late, whatever its host did meanwhile.
bool waits_elsewhere(const Profile& profile, const Straggler& late) {
  const size_t timeline = late.arrivals->members[late.member];
  const int64_t others = std::count_if(
      profile.timelines[timeline].work.begin(), profile.timelines[timeline].work.end(),
      [&](const GpuWork& work) { return work.kind == WorkKind::kCommunication; });
  return static_cast<size_t>(others) > late.arrivals->list.size();
}

// Keeps those that delay the job, and of what they are charged with no more than that.  Whoever
// waits for others elsewhere, too, may be late because of them: a replay tells.  Where none does,
// no host is charged.
void keep_what_costs(const Profile& profile, std::vector<Straggler>& late) {
  std::vector<size_t> suspects;
  late.erase(late.begin() + static_cast<ptrdiff_t>(std::min(late.size(), kMostSuspects)),
             late.end());
  suspects.reserve(late.size());
  for (const Straggler& each : late) {
    suspects.push_back(each.arrivals->members[each.member]);
  }
  const bool some_may_follow = std::any_of(late.begin(), late.end(), [&](const Straggler& each) {
    return waits_elsewhere(profile, each);
  });
  const std::optional<std::vector<int64_t>> delays =
      some_may_follow ? delays_by(profile, suspects) : std::nullopt;
  for (size_t i = 0; i < late.size(); ++i) {
    Straggler& each = late[i];
    if (each.arrivals->by_host) {
      continue;
    }
    each.charged_ns = std::min(each.charged_ns, longest_wait(*each.arrivals, each.member));
    if (waits_elsewhere(profile, each)) {
      const int64_t known = each.by_gpu ? each.charged_ns : 0;
      each.charged_ns = delays ? std::min(each.charged_ns, (*delays)[i]) : known;
    }
  }
  std::erase_if(late, [](const Straggler& each) {
    return static_cast<double>(each.charged_ns) <
           kWarnShare * static_cast<double>(span_of(*each.arrivals));
  });
}

void sort_by_cost(std::vector<Straggler>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Straggler& a, const Straggler& b) {
    return a.charged_ns > b.charged_ns;
  });
}

// Of all groups, each rank once; who cost most first.
std::vector<Straggler> stragglers_of(const Profile& profile) {
  std::map<Rank, Straggler> worst;
  for (const Arrivals& arrivals : profile.groups) {
    for (const Straggler& late : stragglers_of(profile, arrivals)) {
      const auto [known, is_new] = worst.try_emplace(late.rank, late);
      if (!is_new && known->second.charged_ns < late.charged_ns) {
        known->second = late;
      }
    }
  }
  std::vector<Straggler> all;
  all.reserve(worst.size());
  for (const auto& [rank, late] : worst) {
    all.push_back(late);
  }
  sort_by_cost(all);
  keep_what_costs(profile, all);
  sort_by_cost(all);
  return all;
}

// Who meets a straggler, and is none, and who waits for those that it holds up.
Ranks victims_of(const Profile& profile, const std::vector<Straggler>& late,
                 const Ranks& culprits) {
  std::set<size_t> met;  // as Arrivals::members
  for (const Straggler& each : late) {
    met.insert(each.arrivals->members.begin(), each.arrivals->members.end());
  }
  Ranks victims;
  for (const size_t timeline : with_those_held_up(profile, std::move(met))) {
    const Rank rank{*profile.timelines[timeline].rank};
    if (!contains(culprits, rank)) {
      insert(victims, rank);
    }
  }
  return victims;
}

// That its GPU has more to do may be meant (stages, shards), and is no proof against it.
bool is_proven(const Straggler& late) {
  if (late.arrivals->by_host) {
    return true;  // is_certain
  }
  return !late.by_gpu && late.collectives >= kStragglerMany &&
         static_cast<double>(late.times) >= kStragglerHabit * static_cast<double>(late.collectives);
}

const char* where_late(const Straggler& late) {
  return late.by_gpu ? "on the GPU" : "on the host";
}

std::string straggler_text(const Profile& profile, const Straggler& late) {
  return fmt::format(
      "rank {} delayed {} of {} collectives{} {}, by {:.3f} ms in all: {}", late.rank.value,
      late.times, late.collectives, group_text(profile, *late.arrivals), where_late(late),
      static_cast<double>(late.charged_ns) / 1e6,
      late.by_gpu
          ? "its GPU worked longer between them than the others': " + work_text(*late.by_gpu)
          : "its host code between them took longer than the others'");
}

std::string straggler_title(const std::vector<Straggler>& late, const Ranks& culprits) {
  const Straggler& worst = late.front();
  const bool one = late.size() == 1;
  return fmt::format(
      "{} {} delayed {} of {} collectives {}, by {:.2f} ms of {:.2f} ms{}", ranks_text(culprits),
      one ? "is a straggler: it" : fmt::format("are stragglers: rank {}", worst.rank.value),
      worst.times, worst.collectives, where_late(worst),
      static_cast<double>(worst.charged_ns) / 1e6,
      static_cast<double>(span_of(*worst.arrivals)) / 1e6,
      one && worst.by_gpu ? "; " + cause_text(*worst.by_gpu) : "");
}

const char* straggler_advice(const Straggler& worst) {
  if (!worst.by_gpu) {
    return "compare what these ranks do between collectives with what the others do: data, CPU, "
           "NUMA";
  }
  return is_slower_at_same_work(*worst.by_gpu)
             ? "compare the sizes of the data; then clocks, power and temperature of that GPU "
               "(nvidia-smi -q). Does it stay with the rank or with the machine?"
             : "give each rank as much to compute: balance batches by tokens, experts, shards; it "
               "may be meant (stages of a pipeline, sharded embeddings)";
}

// What its own GPU lost meanwhile for want of launches.
void name_own_loss(const Profile& profile, const Straggler& late, Finding& finding) {
  constexpr IdleCause kHostsOwn[] = {IdleCause::kHostBound, IdleCause::kSyncInduced};
  for (const DeviceProfile& device : profile.devices) {
    int64_t left = late.arrivals->members[late.member] == device.timeline && !late.by_gpu
                       ? late.charged_ns
                       : 0;
    for (const IdleCause cause : kHostsOwn) {
      const int64_t lost = std::min(left, device.idle_for(cause));
      name_loss(device, static_cast<size_t>(cause), lost, finding);
      left -= lost;
    }
  }
}

Finding straggler_finding(const Profile& profile, const std::vector<Straggler>& late) {
  const Straggler& worst = late.front();
  Finding finding;
  finding.code = "latency.straggler";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.certainty =
      std::all_of(late.begin(), late.end(), is_proven) ? Certainty::kProof : Certainty::kLikely;
  for (const Straggler& each : late) {
    insert(finding.culprits, each.rank);
    finding.evidence.push_back(straggler_text(profile, each));
    name_own_loss(profile, each, finding);
  }
  finding.victims = victims_of(profile, late, finding.culprits);
  finding.title = straggler_title(late, finding.culprits);
  finding.values = {{"late_ns", worst.charged_ns},
                    {"late_count", static_cast<int64_t>(worst.times)},
                    {"collective_count", static_cast<int64_t>(worst.collectives + 1)}};
  name_waits(profile, finding);
  finding.evidence.push_back(
      "not counted: the first recorded collective, as what ranks did before it is not recorded, "
      "and the time that their hosts waited for the GPU");
  add_clocks(*worst.arrivals, finding);
  add_unknown(*worst.arrivals, finding);
  finding.advice = straggler_advice(worst);
  return finding;
}

bool is_straggler(const std::vector<Straggler>& late, Rank rank) {
  return std::any_of(late.begin(), late.end(),
                     [&](const Straggler& each) { return each.rank == rank; });
}

// What came after it, as far as known.
std::string later_text(const Profile& profile, const Arrivals& arrivals, const OwnLateness& late) {
  if (!arrivals.usable()) {
    return "whether it was late from there on is unknown";
  }
  if (is_straggler(arrivals, habitual_lateness(profile, arrivals, late))) {
    return "";
  }
  size_t times = late.times;
  size_t known = arrivals.list.size() - 1;
  if (!arrivals.by_host) {
    const GpuLatenesses all = gpu_lateness(arrivals);
    const GpuLateness& gpu = all.members[late.member];
    if (gpu.last >= kStragglerAgain &&
        static_cast<double>(gpu.last) >= kStragglerHabit * static_cast<double>(all.known)) {
      return fmt::format("started last on the GPU in {} of {} later ones", gpu.last, all.known);
    }
    times = std::max(times, gpu.times);
    known = all.known;
  }
  return times == 0
             ? fmt::format("delayed none of {} later ones", known)
             : fmt::format("delayed {} of {} later ones, not enough for a straggler", times, known);
}

// Whether it comes late to a group because it waits for a straggler that is not of it.
bool is_held_up(const Profile& profile, const std::vector<Straggler>& late,
                const Arrivals& arrivals, Rank rank) {
  const bool is_theirs = std::any_of(late.begin(), late.end(), [&](const Straggler& each) {
    return arrivals.member(each.arrivals->members[each.member]).has_value();
  });
  return !is_theirs && contains(victims_of(profile, late, {}), rank);
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
  if (group == nullptr || last.entry_ns < kEntryNs) {
    return {};
  }
  const Rank rank = rank_of(profile, *group, last.member);
  const std::vector<Straggler> late = stragglers_of(profile);
  const std::string later = is_held_up(profile, late, *group, rank)
                                ? "waits for a straggler of another group before later ones"
                                : later_text(profile, *group, last);
  if (later.empty() || is_straggler(late, rank)) {
    return {};
  }
  Finding finding;
  finding.code = "latency.entry-skew";
  finding.severity = catalogue_row(finding.code)->severity;
  finding.title = fmt::format(
      "rank {} entered the first recorded collective{} {:.2f} ms after the median, and {}",
      rank.value, group_text(profile, *group), static_cast<double>(last.entry_ns) / 1e6, later);
  finding.values = {{"entry_ns", last.entry_ns}};
  finding.sides = {{rank}};
  finding.evidence = {"what happened before the window is not recorded: no culprit"};
  name_first_waits(profile, finding);
  return {finding};
}

}  // namespace traintrace
