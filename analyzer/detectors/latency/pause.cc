// The GPU had nothing to do now and then, and for long: a checkpoint, an evaluation, start-up; and
// other ranks waited for it.  No habit; those that come again at even intervals, and cost much, are
// worth a warning.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/lost_time/host_between.h"
#include "analyzer/detectors/lost_time/pauses.h"
#include "analyzer/detectors/lost_time/time_account.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

std::string doing(const DeviceProfile& device, const IdleSite& site) {
  if (!site.copy.empty()) {
    return fmt::format("in {}{}", site.copy, site.call.empty() ? "" : ", launched by " + site.call);
  }
  switch (site.cause) {
    case IdleCause::kDataStarvation:
      return "in the data loader, in " + site.call;
    case IdleCause::kSyncInduced:
      return "after " + site.call;
    case IdleCause::kAllocator:
    case IdleCause::kLaunchCall:
      return "inside " + site.call;
    case IdleCause::kHostPeerWait:
      return "waiting on the host for other ranks in " + site.call;
    default:
      return (device.by_host ? "at " : "before ") + site.call;
  }
}

std::optional<size_t> step_of(const DeviceProfile& device, const Pause& pause) {
  return device.steps < 2 || pause.stretch < 0 ? std::nullopt
                                               : std::optional(static_cast<size_t>(pause.stretch));
}

int64_t step_length(const DeviceProfile& device, size_t step) {
  const int64_t end =
      step + 1 < device.step_starts.size() ? device.step_starts[step + 1] : device.window.end_ns;
  return std::max<int64_t>(0, end - device.step_starts[step]);
}

// Those before the first mark are counted back from it.
int64_t number_of(const Timeline& timeline, const DeviceProfile& device, size_t step) {
  return step < device.unmarked
             ? step_number(timeline, 0) - static_cast<int64_t>(device.unmarked - step)
             : step_number(timeline, step - device.unmarked);
}

// "step 0 took 104.2 ms, others 12.0 ms"
std::string step_text(const Profile& profile, const DeviceProfile& device, size_t step) {
  std::vector<int64_t> others;
  for (size_t i = 0; i < device.step_starts.size(); ++i) {
    if (i != step) {
      others.push_back(step_length(device, i));
    }
  }
  const auto middle = others.begin() + static_cast<ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return fmt::format("step {} took {}, others {}",
                     number_of(profile.timelines[device.timeline], device, step),
                     ms_text(step_length(device, step)), ms_text(*middle));
}

std::vector<IdleSite> idle_sites(const Pause& pause) {
  std::vector<IdleSite> sites;
  std::copy_if(pause.sites.begin(), pause.sites.end(), std::back_inserter(sites),
               [](const IdleSite& site) { return site.copy.empty(); });
  return sites;
}

// The call that had waited for the GPU is not where the host was then.
std::string host_text(const Profile& profile, const DeviceProfile& device, const Pause& pause) {
  const std::optional<HostPlace> place = host_place_between(profile, device, idle_sites(pause));
  return place && !pause.sites.front().spent_in_site
             ? fmt::format(", while the host was in {}", site_text(place->site))
             : "";
}

std::string pause_text(const Profile& profile, const DeviceProfile& device, const Pause& pause) {
  const IdleSite& most = pause.sites.front();
  const std::optional<size_t> step = step_of(device, pause);
  std::string text;
  if (pause.is_one()) {
    text += fmt::format("{} {}{}", ms_text(pause.ns), doing(device, most), caller_text(most));
  } else {
    text += fmt::format("{} in {} gaps, {} of it {}{}", ms_text(pause.ns), pause.gaps(),
                        ms_text(most.ns), doing(device, most), caller_text(most));
  }
  text += host_text(profile, device, pause);
  return text + (step ? "; " + step_text(profile, device, *step) : "");
}

const char* bound_text(const DeviceProfile& device) {
  return device.by_host ? "at least " : "";
}

// By the host's calls alone a program that does a few things, and sleeps in between, has pauses.
bool is_loop(const DeviceProfile& device) {
  std::set<int64_t> gaps;  // by their ends
  for (const IdleSite& site : device.sites) {
    for (const IdleGap& gap : site.gaps) {
      gaps.insert(gap.until_ns);
    }
  }
  return !device.by_host || gaps.size() >= kFewestGapsByHost;
}

int64_t pauses_ns(const std::vector<Pause>& pauses) {
  int64_t sum = 0;
  for (const Pause& pause : pauses) {
    sum += pause.ns;
  }
  return sum;
}

void tell_returning(const DeviceProfile& device, const Pauses& pauses, Finding& finding) {
  const IdleSite& site = *pauses.returning;
  const size_t count = site.gaps.size();
  const int64_t every =
      (site.gaps.back().until_ns - site.gaps.front().until_ns) / static_cast<int64_t>(count - 1);
  // The calls alone do not tell them from a host that others keep from running.
  finding.severity =
      device.by_host && !pauses.returns_evenly ? Severity::kInfo : Severity::kWarning;
  finding.title =
      fmt::format("the GPU of rank {} is idle for {}{} in {} pauses that come again every {}{}",
                  device.rank.value, bound_text(device), share_text(device, site.ns), count,
                  ms_text(every), pauses.returns_evenly ? "" : " on average");
  finding.where = {place_of(device.rank, site)};
  finding.values.emplace_back("returning_ns", site.ns);
  finding.values.emplace_back("returning_count", static_cast<int64_t>(count));
  finding.values.emplace_back("interval_ns", every);
}

// How much another GPU waited for pauses, at most.
double waited_share(const Profile& profile, const std::vector<std::vector<WaitOnce>>& waits) {
  double most = 0;
  for (const DeviceProfile& device : profile.devices) {
    int64_t sum = 0;
    for (const WaitOnce& once : waits[device.index]) {
      sum += once.for_a_pause ? once.wait.ns : 0;
    }
    most = std::max(most, device.share(sum));
  }
  return most;
}

// In single steps of the loop all over the recording, as where garbage is collected or a host is
// preempted: no line and no interval, but it will come again.  Empty: they are too few.
std::vector<Pause> scattered_of(const DeviceProfile& device, const std::vector<Pause>& pauses) {
  std::vector<Pause> within;
  std::copy_if(pauses.begin(), pauses.end(), std::back_inserter(within), [&](const Pause& pause) {
    return device.steps >= 2 && pause.stretch > 0;  // the first step is one of warming up
  });
  if (within.size() < kReturns) {
    return {};
  }
  const auto [first, last] =
      std::minmax_element(within.begin(), within.end(),
                          [](const Pause& a, const Pause& b) { return a.stretch < b.stretch; });
  const auto steps = static_cast<int64_t>(device.steps);
  return 5 * (last->stretch - first->stretch) >= 2 * steps ? within : std::vector<Pause>{};
}

void tell_scattered(const DeviceProfile& device, const std::vector<Pause>& pauses,
                    Finding& finding) {
  finding.severity = Severity::kWarning;
  finding.title = fmt::format("the GPU of rank {} is idle for {} in pauses in {} of {} steps",
                              device.rank.value, share_text(device, pauses_ns(pauses)),
                              pauses.size(), device.steps);
}

std::string title_of_pauses(const Profile& profile, const DeviceProfile& device,
                            const std::vector<Pause>& pauses, int64_t all_ns) {
  const Pause& first = pauses.front();
  const char* const bound = bound_text(device);
  if (pauses.size() > 1) {
    return fmt::format("the GPU of rank {} was idle for {}{} in {} single pauses, not in each step",
                       device.rank.value, bound, share_text(device, all_ns), pauses.size());
  }
  if (first.is_one()) {
    return fmt::format("the GPU of rank {} {} once for {}{} ({}), not in each step",
                       device.rank.value, first.sites.front().copy.empty() ? "was idle" : "copied",
                       bound, ms_text(first.ns), share_text(device, first.ns));
  }
  const std::optional<size_t> step = step_of(device, first);
  return fmt::format(
      "{}the GPU of rank {} computed nothing for {} in {} gaps: {} or an evaluation, no habit",
      step ? "one step alone: " + step_text(profile, device, *step) + "; " : "once ",
      device.rank.value, share_text(device, first.ns), first.gaps(),
      device.loop_start_ns ? "a warm-up" : "start-up");
}

// "rank 1: waited once for rank 0 in allreduce, 400.1 ms"
std::string once_text(const Profile& profile, const DeviceProfile& device, const WaitOnce& once) {
  return fmt::format("rank {}: {} of waiting for rank {} in one {}", device.rank.value,
                     ms_text(once.wait.ns), profile.devices[once.last].rank.value,
                     profile.groups[once.wait.group].list[once.wait.collective].operation);
}

void name_once(const Profile& profile, const std::vector<std::vector<WaitOnce>>& waits,
               Finding& finding) {
  for (const DeviceProfile& device : profile.devices) {
    for (const WaitOnce& once : waits[device.index]) {
      name_loss(device, kExposedLoss, once.again ? 0 : once.wait.ns, finding);
    }
  }
}

constexpr size_t kMostPauseLines = 5;
constexpr size_t kMostStartUpLines = 4;

// Nobody had a pause: who came late computed, or waited elsewhere.
std::vector<Finding> only_waits(const Profile& profile,
                                const std::vector<std::vector<WaitOnce>>& waits) {
  const std::vector<LossOn> losses =
      losses_of(profile, kWarnShare, [&](const DeviceProfile& device) {
        int64_t sum = 0;
        for (const WaitOnce& once : waits[device.index]) {
          sum += once.again ? 0 : once.wait.ns;
        }
        return sum;
      });
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  std::vector<WaitOnce> longest = waits[worst.index];
  std::stable_sort(longest.begin(), longest.end(),
                   [](const WaitOnce& a, const WaitOnce& b) { return a.wait.ns > b.wait.ns; });
  Finding finding = loss_finding("latency.pause", losses, Comes::kNowAndThen);
  finding.title = fmt::format(
      "{} waited for late ranks in single collectives, not in each step: rank {} {}",
      ranks_text(finding.culprits), worst.rank.value, share_text(worst, losses.front().ns));
  finding.victims = finding.culprits;
  finding.culprits.clear();
  finding.values = {{"waited_ns", losses.front().ns},
                    {"waited_percent", percent_of(worst, losses.front().ns)},
                    {"pause_count", static_cast<int64_t>(longest.size())},
                    {"longest_ns", longest.front().wait.ns}};
  for (size_t i = 0; i < longest.size() && i < kMostPauseLines; ++i) {
    finding.evidence.push_back(once_text(profile, worst, longest[i]));
  }
  name_once(profile, waits, finding);
  finding.advice =
      "no action if those ranks evaluate or write a checkpoint; else look what they do "
      "there: `report --by=step`";
  return {finding};
}

void add_pause_victims(const Profile& profile, const std::vector<std::vector<WaitOnce>>& waits,
                       Finding& finding) {
  const WaitOnce* longest = nullptr;
  const DeviceProfile* victim = nullptr;
  for (const DeviceProfile& device : profile.devices) {
    for (const WaitOnce& once : waits[device.index]) {
      if (once.for_a_pause) {
        insert(finding.victims, device.rank);
        if (longest == nullptr || once.wait.ns > longest->wait.ns) {
          longest = &once;
          victim = &device;
        }
      }
    }
  }
  if (longest != nullptr) {
    finding.title += fmt::format("; {} waited for it", ranks_text(finding.victims));
    finding.evidence.push_back(once_text(profile, *victim, *longest));
    finding.values.emplace_back("waited_ns", longest->wait.ns);
  }
}

// Before the line of the call that had waited for the GPU.
void add_host_place(const Profile& profile, const DeviceProfile& device,
                    const std::vector<Pause>& pauses, Finding& finding) {
  std::vector<IdleSite> sites;
  for (const Pause& pause : pauses) {
    const std::vector<IdleSite> own = idle_sites(pause);
    sites.insert(sites.end(), own.begin(), own.end());
  }
  const std::optional<HostPlace> host = host_place_between(profile, device, sites);
  if (!host) {
    return;
  }
  IdleSite site = {};
  site.site = host->site;
  const CodePlace place = place_of(device.rank, site);
  std::erase_if(finding.where, [&](const CodePlace& each) {
    return each.rank == place.rank && each.file == place.file && each.line == place.line;
  });
  finding.where.insert(finding.where.begin(), place);
}

// What it says of the GPU that lost most, without who waited for it.
Finding pause_finding(const Profile& profile, const std::vector<LossOn>& losses, const Pauses& all,
                      const std::vector<std::vector<WaitOnce>>& waits) {
  const std::vector<Pause>& pauses = all.list;
  const DeviceProfile& worst = *losses.front().device;
  Finding finding = loss_finding("latency.pause", losses, Comes::kNowAndThen);
  finding.certainty = Certainty::kProof;
  finding.title = title_of_pauses(profile, worst, pauses, losses.front().ns);
  finding.sides = {finding.culprits};
  finding.culprits.clear();
  finding.evidence.clear();
  finding.values = {{"idle_ns", losses.front().ns},
                    {"idle_percent", percent_of(worst, losses.front().ns)},
                    {"pause_count", static_cast<int64_t>(pauses.size())},
                    {"longest_ns", pauses.front().ns}};
  finding.where.push_back(place_of(worst.rank, pauses.front().sites.front()));
  const std::optional<IdleSite>& returning = all.returning;
  if (returning && is_loop(worst) && worst.share(returning->ns) >= kReturningShare) {
    tell_returning(worst, all, finding);
  } else if (const std::vector<Pause> scattered = scattered_of(worst, pauses);
             worst.share(pauses_ns(scattered)) >= kReturningShare &&
             waited_share(profile, waits) >= kReturningShare) {
    tell_scattered(worst, scattered, finding);
  }
  add_host_place(profile, worst, pauses, finding);
  for (size_t i = 0; i < pauses.size() && i < kMostPauseLines; ++i) {
    finding.evidence.push_back(
        fmt::format("rank {}: {}", worst.rank.value, pause_text(profile, worst, pauses[i])));
  }
  finding.advice =
      finding.severity == Severity::kWarning
          ? "checkpoint or evaluate less often, or beside the training (async_save); where no line "
            "is named, suspect garbage collection (gc.freeze, or gc.collect on all ranks in one "
            "step) or other processes on its cores; else look at that line"
          : fmt::format(
                "it cost {} in all: no action if that is little for the whole run, or if it "
                "is a checkpoint, an evaluation or start-up; else look at that line",
                ms_text(losses.front().ns));
  return finding;
}

// Start-up, in the order of its losses.
std::vector<LossOn> start_ups_of(const Profile& profile) {
  std::vector<LossOn> losses;
  for (const DeviceProfile& device : profile.devices) {
    if (const std::optional<Pause> start_up = start_up_of(device)) {
      losses.push_back({&device, start_up->ns});
    }
  }
  std::stable_sort(losses.begin(), losses.end(), [](const LossOn& a, const LossOn& b) {
    return a.device->share_of_whole(a.ns) > b.device->share_of_whole(b.ns);
  });
  return losses;
}

std::string start_up_text(const DeviceProfile& device) {
  return fmt::format(
      "before its first step the GPU of rank {} computed nothing for {} ({:.1f} % of the "
      "recording)",
      device.rank.value, ms_text(device.start_up_lost_ns()),
      100 * device.share_of_whole(device.start_up_lost_ns()));
}

// The places that took most of it, each line once.
void add_start_up_places(const Profile& profile, const DeviceProfile& device, Finding& finding) {
  for (size_t i = 0; i < device.start_up.size() && i < kMostStartUpLines; ++i) {
    const IdleSite& site = device.start_up[i];
    if (device.share_of_whole(site.ns) >= kPauseShare) {
      const size_t gaps = site.gaps.size();
      finding.evidence.push_back(fmt::format(
          "rank {}: start-up: {}{} {}{}{}", device.rank.value, ms_text(site.ns),
          gaps == 1 ? "" : fmt::format(" in {} gaps", gaps), doing(device, site), caller_text(site),
          i == 0 ? host_text(profile, device, {-1, site.ns, {site}}) : ""));
    }
  }
}

void name_start_ups(const std::vector<LossOn>& losses, Finding& finding) {
  for (const LossOn& loss : losses) {
    name_loss(*loss.device, kStartUpLoss, loss.ns, finding);
  }
}

// Beside pauses of the loop.
void add_start_ups(const std::vector<LossOn>& losses, Finding& finding) {
  if (!losses.empty()) {
    finding.evidence.push_back("start-up is not counted here: " +
                               start_up_text(*losses.front().device));
    finding.values.emplace_back("start_up_ns", losses.front().ns);
    name_start_ups(losses, finding);
  }
}

std::vector<Finding> only_start_ups(const Profile& profile, const std::vector<LossOn>& losses) {
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  const int64_t ns = losses.front().ns;
  Finding finding = loss_finding("latency.pause", losses, Comes::kNowAndThen);
  finding.certainty = Certainty::kProof;
  finding.title = "start-up: " + start_up_text(worst);
  finding.sides = {finding.culprits};
  finding.culprits.clear();
  finding.evidence.clear();
  finding.values = {
      {"idle_ns", ns},     {"idle_percent", std::llround(100 * worst.share_of_whole(ns))},
      {"pause_count", 1},  {"longest_ns", ns},
      {"start_up_ns", ns}, {"gain_ns", ns}};
  if (!worst.start_up.empty()) {
    finding.where.push_back(place_of(worst.rank, worst.start_up.front()));
  }
  add_host_place(profile, worst, {*start_up_of(worst)}, finding);
  if (finding.where.size() > 1) {  // one line, where the host was
    finding.where.erase(finding.where.begin() + 1, finding.where.end());
  }
  add_start_up_places(profile, worst, finding);
  name_start_ups(losses, finding);
  finding.advice = fmt::format(
      "no action if {} is little for the whole run: start-up is paid once, and all other shares "
      "are of the loop alone; else look at that line",
      ms_text(ns));
  return {finding};
}

}  // namespace

std::vector<Finding> find_pauses(const Profile& profile) {
  const std::vector<LossOn> start_ups = start_ups_of(profile);
  std::vector<Pauses> all;
  for (const DeviceProfile& device : profile.devices) {
    all.push_back(pauses_of(device));
  }
  const std::vector<LossOn> losses = idle_losses_of(
      profile, kWarnShare,
      [&](const DeviceProfile& device) { return pauses_ns(all[device.index].list); });
  const std::vector<std::vector<WaitOnce>> waits = waits_once(profile, all);
  if (losses.empty()) {
    std::vector<Finding> waited = only_waits(profile, waits);
    if (waited.empty()) {
      return only_start_ups(profile, start_ups);
    }
    add_start_ups(start_ups, waited.front());
    return waited;
  }
  const DeviceProfile& worst = *losses.front().device;
  const std::vector<Pause>& pauses = all[worst.index].list;
  Finding finding = pause_finding(profile, losses, all[worst.index], waits);
  add_pause_victims(profile, waits, finding);
  finding.values.emplace_back("gain_ns", losses.front().ns);
  finding.evidence.push_back(fmt::format(
      "without {} the recorded {} of rank {} would take {} instead of {}, at best",
      pauses.size() == 1 ? "it" : "them", worst.steps > 1 ? "loop" : "window", worst.rank.value,
      ms_text(worst.times.window_ns - losses.front().ns), ms_text(worst.times.window_ns)));
  for (const LossOn& loss : losses) {
    for (const Pause& pause : all[loss.device->index].list) {
      name_sites(*loss.device, pause.sites, finding);
    }
  }
  name_once(profile, waits, finding);
  add_start_ups(start_ups, finding);
  return {finding};
}

}  // namespace traintrace
