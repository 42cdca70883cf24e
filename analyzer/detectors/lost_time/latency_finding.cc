#include "analyzer/detectors/lost_time/latency_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <set>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/lost_time/batch_habit.h"
#include "analyzer/detectors/lost_time/line_habits.h"
#include "analyzer/detectors/lost_time/time_account.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/exposed_copies.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

constexpr size_t kMostSites = 3;

std::string per_step_text(const DeviceProfile& device, int64_t ns) {
  return device.steps < 2
             ? ""
             : fmt::format(", {} in each of {} steps", ms_text(device.per_step(ns)), device.steps);
}

// "16 gaps at cudaLaunchKernel", "20 times Memcpy HtoD (Pinned -> Device) by cudaMemcpyAsync"
std::string gaps_text(const IdleSite& site) {
  const size_t count = site.gaps.size();
  if (!site.copy.empty()) {
    return fmt::format("{} time{} {}{}", count, count == 1 ? "" : "s", site.copy,
                       site.call.empty() ? "" : " by " + site.call);
  }
  return fmt::format("{} gap{} at {}", count, count == 1 ? "" : "s", site.call);
}

// What comes again and again of some sites, by the steps and by the lines; of a loader by its
// batches, too.
class Habits {
 public:
  Habits(const DeviceProfile& device, const std::vector<IdleSite>& sites, const SiteFilter& is_of)
      : lines_(device),
        habit_(device, gaps_of(sites, is_of)),
        longest_batch_(longest_batch(device, gaps_of(sites, [&](const IdleSite& site) {
                                       return is_of(site) && site.copy.empty() &&
                                              site.cause == IdleCause::kDataStarvation;
                                     }))) {}
  bool has(const IdleGap& gap) const {
    return !lines_.is_pause(gap) && (habit_.has(gap) || gap.ns <= longest_batch_);
  }

 private:
  std::vector<IdleGap> gaps_of(const std::vector<IdleSite>& sites, const SiteFilter& is_of) const {
    std::vector<IdleGap> gaps;
    for (const IdleSite& site : sites) {
      if (is_of(site)) {
        std::copy_if(site.gaps.begin(), site.gaps.end(), std::back_inserter(gaps),
                     [&](const IdleGap& gap) { return !lines_.is_pause(gap); });
      }
    }
    return gaps;
  }

  LineHabits lines_;
  Habit habit_;
  int64_t longest_batch_;
};

// The sites with those of their gaps that `keeps`, most idle time first.
std::vector<IdleSite> parts_of(const std::vector<IdleSite>& sites, const SiteFilter& is_of,
                               const std::function<bool(const IdleGap&)>& keeps) {
  std::vector<IdleSite> parts;
  for (const IdleSite& site : sites) {
    if (!is_of(site)) {
      continue;
    }
    IdleSite part = site.without_gaps();
    for (const IdleGap& gap : site.gaps) {
      if (keeps(gap)) {
        part.gaps.push_back(gap);
        part.ns += gap.ns;
      }
    }
    if (!part.gaps.empty()) {
      parts.push_back(std::move(part));
    }
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const IdleSite& a, const IdleSite& b) { return a.ns > b.ns; });
  return parts;
}

}  // namespace

std::string caller_text(const IdleSite& site) {
  if (!site.site.empty()) {
    return (site.spent_in_site ? ", while the host was in " : ", called by ") +
           site_text(site.site);
  }
  return !site.op.empty() ? " within " + site.op : !site.kernel.empty() ? " of " + site.kernel : "";
}

std::string ms_text(int64_t ns) {
  constexpr int64_t kShown = 50'000;  // what is less would be 0.0 ms
  return ns > 0 && ns < kShown ? fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3)
                               : fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

std::string idle_text(const std::vector<LossOn>& losses) {
  Ranks ranks;
  for (const LossOn& loss : losses) {
    insert(ranks, loss.device->rank);
  }
  const LossOn& worst = losses.front();
  std::string of_whom;
  if (losses.size() > 1) {
    const LossOn& second = losses[1];
    const bool stands_out =
        worst.device->share(worst.ns) > kStandsOutTimes * second.device->share(second.ns);
    of_whom = fmt::format(
        " (rank {}{})", worst.device->rank.value,
        stands_out ? "; the others up to " + share_text(*second.device, second.ns) : "");
  }
  return fmt::format("the GPU{} of {} {} idle for {}{}{}", losses.size() == 1 ? "" : "s",
                     ranks_text(ranks), losses.size() == 1 ? "is" : "are",
                     worst.device->by_host ? "at least "
                     : losses.size() == 1  ? ""
                                           : "up to ",
                     share_text(*worst.device, worst.ns), of_whom);
}

std::vector<IdleSite> repeated_sites(const DeviceProfile& device, const SiteFilter& is_of) {
  const Habits habit(device, device.sites, is_of);
  return parts_of(device.sites, is_of, [&](const IdleGap& gap) { return habit.has(gap); });
}

std::vector<IdleSite> repeated_copies(const DeviceProfile& device, const SiteFilter& is_of) {
  const Habits habit(device, device.copies, is_of);
  return parts_of(device.copies, is_of, [&](const IdleGap& copy) { return habit.has(copy); });
}

std::vector<IdleSite> single_pauses(const DeviceProfile& device, const SiteFilter& is_of) {
  const Habits habit(device, device.sites, is_of);
  return parts_of(device.sites, is_of, [&](const IdleGap& gap) { return !habit.has(gap); });
}

std::vector<IdleSite> single_copies(const DeviceProfile& device) {
  std::vector<IdleSite> sites;
  for (const bool pageable : {true, false}) {
    const SiteFilter is_of = [pageable](const IdleSite& copy) {
      return is_pageable(copy) == pageable;
    };
    const Habits habit(device, device.copies, is_of);
    std::vector<IdleSite> some =
        parts_of(device.copies, is_of, [&](const IdleGap& copy) { return !habit.has(copy); });
    std::move(some.begin(), some.end(), std::back_inserter(sites));
  }
  return sites;
}

int64_t sum_ns(const std::vector<IdleSite>& sites) {
  int64_t sum = 0;
  for (const IdleSite& site : sites) {
    sum += site.ns;
  }
  return sum;
}

SiteFilter of_cause(IdleCause cause) {
  return [cause](const IdleSite& site) { return site.cause == cause; };
}

bool is_after_pageable_copy(const IdleSite& site) {
  return site.cause == IdleCause::kSyncInduced && site.call.find("Memcpy") != site.call.npos &&
         site.call.find("Async") != site.call.npos;
}

bool is_pageable(const IdleSite& site) {
  return is_pageable_copy(site.copy);
}

int64_t repeated_loss(const DeviceProfile& device, IdleCause cause) {
  const int64_t ns = sum_ns(repeated_sites(device, of_cause(cause)));
  return device.share(ns) >= kWarnShare ? ns : 0;
}

std::vector<IdleSite> late_sites(const DeviceProfile& device) {
  std::vector<IdleSite> sites;
  for (const IdleCause cause :
       {IdleCause::kHostBound, IdleCause::kLaunchCall, IdleCause::kLaunchLatency}) {
    std::vector<IdleSite> some = repeated_sites(device, of_cause(cause));
    std::move(some.begin(), some.end(), std::back_inserter(sites));
  }
  std::stable_sort(sites.begin(), sites.end(),
                   [](const IdleSite& a, const IdleSite& b) { return a.ns > b.ns; });
  return sites;
}

int64_t late_loss(const DeviceProfile& device, double share) {
  const int64_t ns = sum_ns(late_sites(device));
  return device.share(ns) >= share ? ns : 0;
}

int64_t percent_of(const DeviceProfile& device, int64_t ns) {
  return std::llround(100 * device.share(ns));
}

std::string share_text(const DeviceProfile& device, int64_t ns) {
  return fmt::format("{:.1f} % of {}", 100 * device.share(ns), ms_text(device.times.window_ns));
}

// Where hardly anything is unknown it does not matter how much of the idle time that is.
bool is_attributed(const DeviceProfile& device) {
  const int64_t unknown =
      device.idle_for(IdleCause::kUnattributed) + device.idle_for(IdleCause::kDependency);
  return device.share(unknown) < kWarnShare ||
         static_cast<double>(device.times.idle_ns - unknown) >=
             kKnownShare * static_cast<double>(device.times.idle_ns);
}

std::vector<LossOn> losses_of(const Profile& profile, double share,
                              const std::function<int64_t(const DeviceProfile&)>& loss) {
  std::vector<LossOn> losses;
  for (const DeviceProfile& device : profile.devices) {
    const int64_t ns = loss(device);
    const double least = device.by_host ? std::max(share, kWarnShareByHost) : share;
    const int64_t least_ns = device.by_host ? kLeastByHostNs : 1;
    if (ns >= least_ns && device.share(ns) >= least) {
      losses.push_back({&device, ns});
    }
  }
  std::stable_sort(losses.begin(), losses.end(), [](const LossOn& a, const LossOn& b) {
    return a.device->share(a.ns) > b.device->share(b.ns);
  });
  return losses;
}

std::vector<LossOn> idle_losses_of(const Profile& profile, double share,
                                   const std::function<int64_t(const DeviceProfile&)>& loss) {
  std::vector<LossOn> losses = losses_of(profile, share, loss);
  std::erase_if(losses, [&](const LossOn& each) {
    return each.device->share(each.ns - each.device->profiling_idle_ns) < share;
  });
  return losses;
}

void add_profiling(const DeviceProfile& device, Finding& finding) {
  if (device.share(device.profiling_ns) >= kProfilingShare &&
      finding.evidence.size() < kManyEvidenceLines) {
    finding.evidence.push_back(fmt::format(
        "rank {}: the profiler (CUPTI) worked for itself for {}, {} of it with the GPU idle",
        device.rank.value, ms_text(device.profiling_ns), ms_text(device.profiling_idle_ns)));
  }
}

Finding loss_finding(std::string_view code, const std::vector<LossOn>& losses, Comes comes) {
  const bool per_step = comes == Comes::kAgainAndAgain;
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  finding.certainty = Certainty::kLikely;
  for (const LossOn& loss : losses) {
    insert(finding.culprits, loss.device->rank);
    if (finding.evidence.size() < kManyEvidenceLines) {
      finding.evidence.push_back(fmt::format("rank {}: {}, {}{}", loss.device->rank.value,
                                             ms_text(loss.ns), share_text(*loss.device, loss.ns),
                                             per_step ? per_step_text(*loss.device, loss.ns) : ""));
    }
  }
  const DeviceProfile& worst = *losses.front().device;
  add_profiling(worst, finding);
  const int64_t ns = losses.front().ns;
  finding.values = {{"idle_ns", ns}, {"idle_percent", percent_of(worst, ns)}};
  if (per_step && worst.steps > 1) {
    finding.values.emplace_back("idle_ns_per_step", worst.per_step(ns));
  }
  return finding;
}

void add_clocks(const Arrivals& arrivals, Finding& finding) {
  for (const ClockShift& shift : arrivals.clocks.shifts) {
    if (finding.evidence.size() < kManyEvidenceLines) {
      finding.evidence.push_back(
          fmt::format("the clock of {} was {:.3f} ms ahead of the first one's and drifted by "
                      "{:.1f} ppm, by the "
                      "ends of {} collectives; {:.1f} us are left in 95 of 100",
                      shift.clock, static_cast<double>(shift.offset_ns) / 1e6,
                      static_cast<double>(shift.drift_ppb) / 1e3, arrivals.list.size(),
                      static_cast<double>(shift.residual_ns) / 1e3));
    }
  }
}

void add_unknown(const Arrivals& arrivals, Finding& finding) {
  if (arrivals.contradicted != 0 && finding.evidence.size() < kManyEvidenceLines) {
    finding.evidence.push_back(
        fmt::format("without {} of {} collectives, whose ends differ by up to {:.3f} ms: who came "
                    "late to these is not known",
                    arrivals.contradicted, arrivals.list.size(),
                    static_cast<double>(arrivals.greatest_end_skew_ns) / 1e6));
  }
}

std::string site_text(const std::string& site) {
  IdleSite named;
  named.site = site;
  const CodePlace place = place_of({0}, named);
  return place.file.empty() ? site : place_text(place);
}

CodePlace place_of(Rank rank, const IdleSite& site) {
  // "FILE(LINE): FUNCTION", and functions of C++ have parentheses too.
  const size_t close = site.site.find("): ");
  const size_t open = close == site.site.npos ? close : site.site.rfind('(', close);
  if (open == site.site.npos) {
    const std::string& known = !site.op.empty() ? site.op : site.kernel;
    return {rank, "", 0, known.empty() ? site.call : known, "native"};
  }
  int line = 0;
  const char* text = site.site.data();
  std::from_chars(text + open + 1, text + close, line);
  const std::string file = site.site.substr(0, open);
  return {rank, file, std::max(line, 0), site.site.substr(close + 3),
          file.ends_with(".py") ? "python" : "c++"};
}

void name_loss(const DeviceProfile& device, size_t kind, int64_t ns, Finding& finding) {
  if (ns > 0) {
    finding.named.push_back({device.index, kind, ns});
  }
}

CollectiveTimes collective_times(const Profile& profile, const DeviceProfile& device) {
  CollectiveTimes times;
  for (size_t group = 0; group < profile.groups.size(); ++group) {
    const Arrivals& arrivals = profile.groups[group];
    const std::optional<size_t> member = arrivals.member(device.timeline);
    if (!member || !arrivals.usable()) {
      continue;
    }
    times.known = true;
    const size_t before = device.collectives_before_loop[group];
    for (size_t i = before; i < arrivals.list.size(); ++i) {
      const Arrival& arrival = arrivals.list[i];
      const bool first = i == 0;
      int64_t& waited = first                ? times.first_wait_ns
                        : arrival.is_known() ? times.waited_ns
                                             : times.unknown_ns;
      waited += arrival.wait_of(*member);
      times.left_out_ns +=
          first || !arrival.is_known() ? arrival.end_ns[*member] - arrival.start_ns[*member] : 0;
    }
  }
  for (const CollectiveWait& wait : single_waits(device)) {
    times.single_ns += wait.ns;
  }
  times.single_ns = std::min(times.single_ns, times.waited_ns);
  return times;
}

Habit habit_of_waits(const DeviceProfile& device) {
  std::vector<IdleGap> all;
  for (const CollectiveWait& wait : device.waits) {
    all.push_back({wait.ns, wait.at_ns + wait.ns});
  }
  return {device, all};
}

std::vector<CollectiveWait> unusual_waits(const DeviceProfile& device) {
  std::vector<CollectiveWait> unusual;
  const Habit habit = habit_of_waits(device);
  for (const CollectiveWait& wait : device.waits) {
    if (wait.ns > 0 && device.steps > 1 && !habit.has({wait.ns, wait.at_ns + wait.ns})) {
      unusual.push_back(wait);
    }
  }
  return unusual;
}

std::vector<CollectiveWait> single_waits(const DeviceProfile& device) {
  std::vector<CollectiveWait> unusual = unusual_waits(device);
  std::set<int64_t> steps;  // with such of which one is worth a line
  for (const CollectiveWait& wait : unusual) {
    if (device.share(wait.ns) >= kPauseShare) {
      steps.insert(stretch_of(device, {wait.ns, wait.at_ns + wait.ns}));
    }
  }
  return steps.size() < kReturns ? unusual : std::vector<CollectiveWait>{};
}

void name_waits(const Profile& profile, Finding& finding, bool single_too) {
  for (const DeviceProfile& device : profile.devices) {
    const CollectiveTimes times = collective_times(profile, device);
    name_loss(device, kExposedLoss, times.waited_ns - (single_too ? 0 : times.single_ns), finding);
    name_loss(device, static_cast<size_t>(IdleCause::kStragglerWait),
              device.idle_for(IdleCause::kStragglerWait), finding);
  }
}

void name_first_waits(const Profile& profile, Finding& finding) {
  for (const DeviceProfile& device : profile.devices) {
    name_loss(device, kExposedLoss, collective_times(profile, device).first_wait_ns, finding);
  }
}

std::string group_text(const Profile& profile, const Arrivals& arrivals) {
  return arrivals.group.empty() || profile.groups.size() < 2 ? "" : " of group " + arrivals.group;
}

bool knows_arrivals(const Profile& profile) {
  return std::any_of(profile.groups.begin(), profile.groups.end(),
                     [](const Arrivals& arrivals) { return arrivals.usable(); });
}

std::string why_not_text(const Profile& profile) {
  const auto reason = std::find_if(profile.groups.begin(), profile.groups.end(),
                                   [](const Arrivals& each) { return !each.why_not.empty(); });
  return reason == profile.groups.end() ? "ends of one collective contradict each other"
                                        : reason->why_not;
}

void name_sites(const DeviceProfile& device, const std::vector<IdleSite>& sites, Finding& finding) {
  for (const IdleSite& site : sites) {
    name_loss(device, site.copy.empty() ? static_cast<size_t>(site.cause) : kCopyLoss, site.ns,
              finding);
  }
}

void add_alike(const Profile& profile, const std::vector<LossOn>& losses, HostTime kind,
               const Doing& doing, Finding& finding) {
  std::vector<size_t> losers;
  losers.reserve(losses.size());
  for (const LossOn& loss : losses) {
    losers.push_back(loss.device->index);
  }
  Ranks ranks;
  for (const DeviceProfile* const device : alike(profile, losers, kind)) {
    insert(ranks, device->rank);
    insert(finding.culprits, device->rank);
  }
  if (!ranks.empty()) {
    finding.title += fmt::format("; the {} of {} {}", ranks.size() == 1 ? "host" : "hosts",
                                 ranks_text(ranks), ranks.size() == 1 ? doing.one : doing.several);
  }
}

namespace {

// Of a call that is there for several causes, which of them: " (launch-call)".
std::string cause_text(const IdleSite& site, const std::vector<IdleSite>& sites) {
  const bool several = std::any_of(sites.begin(), sites.end(), [&](const IdleSite& other) {
    return other.call == site.call && other.cause != site.cause;
  });
  return several ? fmt::format(" ({})", kIdleCauseNames[static_cast<size_t>(site.cause)]) : "";
}

}  // namespace

void add_sites(const std::vector<LossOn>& losses,
               const std::function<std::vector<IdleSite>(const DeviceProfile&)>& sites_of,
               Finding& finding) {
  for (const LossOn& loss : losses) {
    const std::vector<IdleSite> sites = sites_of(*loss.device);
    name_sites(*loss.device, sites, finding);
    size_t shown = 0;
    for (const IdleSite& site : sites) {
      if ((site.call.empty() && site.copy.empty()) || shown == kMostSites) {
        continue;
      }
      // A launch of which nothing else is known is no place in anybody's code.
      const bool tells = !is_launch(site.cause) || !site.copy.empty() || !site.site.empty() ||
                         !site.op.empty() || !site.kernel.empty();
      if (++shown == 1 && tells && finding.where.size() < kManyEvidenceLines) {
        finding.where.push_back(place_of(loss.device->rank, site));
      }
      if (&loss == &losses.front()) {
        finding.evidence.push_back(fmt::format("rank {}: {} in {}{}", loss.device->rank.value,
                                               ms_text(site.ns), gaps_text(site),
                                               caller_text(site) + cause_text(site, sites)));
      }
    }
  }
}

}  // namespace traintrace
