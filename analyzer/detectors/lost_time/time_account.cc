#include "analyzer/detectors/lost_time/time_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr size_t kMostParts = 3;

int64_t sum_of(const LossTimes& times) {
  return std::accumulate(times.begin(), times.end(), int64_t{0});
}

int64_t unknown_of(const LossTimes& times) {
  return times[static_cast<size_t>(IdleCause::kUnattributed)] +
         times[static_cast<size_t>(IdleCause::kDependency)];
}

// The profiler's own time is nothing that the job lost.
int64_t rest_of(const DeviceProfile& device, const LossTimes& times) {
  return std::max<int64_t>(0, sum_of(times) - device.profiling_idle_ns);
}

const char* name_of_kind(size_t kind) {
  constexpr std::array<const char*, kLossKinds> kNames = {
      "the data loader",
      "calls that wait for the GPU",
      "allocating memory or loading code",
      "waiting on the host for other ranks",
      "launches that came late",
      "loading code at first use",
      "time inside launch calls",
      "launch latency",
      "waiting for communication on another GPU",
      "waiting for a late rank on another GPU",
      "waiting for a copy on another GPU",
      "gaps of less than 10 us between kernels",
      "queued work that began late",
      "gaps inside replays of graphs",
      "launches that were not recorded",
      "exposed communication",
      "exposed copies",
      "start-up"};
  return kNames[kind];
}

// As `report --by=cause` and the bars have it.
std::string name_with_cause(size_t kind) {
  return kind < kIdleCauses ? fmt::format("{} ({})", name_of_kind(kind), kIdleCauseNames[kind])
                            : name_of_kind(kind);
}

// Which rule left it out.
std::string rule_of(const DeviceProfile& device, size_t kind) {
  const auto cause = static_cast<IdleCause>(kind);
  if (cause == IdleCause::kUnattributed) {
    return "the calls that launched this work are missing from the recording";
  }
  if (cause == IdleCause::kDependency) {
    return "what this work waited for was not recorded";
  }
  if (cause == IdleCause::kKernelGap) {
    return "the kernels are short: fusing them or CUDA graphs would close the gaps";
  }
  if (!is_attributed(device) && cause != IdleCause::kSyncInduced) {
    return "not judged: for too much of the idle time no cause was recorded";
  }
  if (kind == kExposedLoss) {
    return "below the threshold of each finding about communication, or waiting for ranks whose "
           "arrival is not known";
  }
  if (kind != kCopyLoss &&
      (cause == IdleCause::kHostPeerWait || cause > IdleCause::kLaunchLatency)) {
    return "the other side was not recorded";
  }
  const std::vector<IdleSite> again =
      kind == kCopyLoss ? repeated_copies(device, [](const IdleSite&) { return true; })
                        : repeated_sites(device, of_cause(cause));
  return fmt::format("{} of it comes again and again, below the threshold of a finding",
                     ms_text(sum_ns(again)));
}

std::vector<size_t> largest_first(const LossTimes& times) {
  std::vector<size_t> kinds(kLossKinds);
  std::iota(kinds.begin(), kinds.end(), size_t{0});
  std::stable_sort(kinds.begin(), kinds.end(),
                   [&](size_t a, size_t b) { return times[a] > times[b]; });
  return kinds;
}

std::string parts_text(const LossTimes& times) {
  std::string text;
  size_t parts = 0;
  for (const size_t kind : largest_first(times)) {
    if (times[kind] > 0 && parts++ < kMostParts) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of_kind(kind),
                          ms_text(times[kind]));
    }
  }
  return text;
}

// Beside warnings that name more of what was lost there.
bool is_detail(const DeviceProfile& device, int64_t rest, const std::vector<Finding>& findings) {
  int64_t warned = 0;
  for (const Finding& finding : findings) {
    for (const NamedLoss& named : finding.named) {
      const bool warns = finding.severity != Severity::kInfo && named.device == device.index;
      warned += warns ? std::min(named.ns, device.times.window_ns) : 0;
    }
  }
  return warned >= rest;
}

std::string title_of(const DeviceProfile& device, const LossTimes& rest) {
  if (!is_attributed(device)) {
    return fmt::format(
        "the recording is too incomplete to judge the GPU of rank {}: {} are lost, and of the idle "
        "time {} have no recorded cause",
        device.rank.value, share_text(device, sum_of(rest)), ms_text(unknown_of(rest)));
  }
  if (2 * unknown_of(rest) >= sum_of(rest)) {
    return fmt::format("{}; the recording does not show why for {} of it",
                       idle_text({{&device, device.times.idle_ns}}), ms_text(unknown_of(rest)));
  }
  return fmt::format(
      "{} of the GPU of rank {} are lost to causes too small for findings of their own: {}",
      share_text(device, sum_of(rest)), device.rank.value, parts_text(rest));
}

}  // namespace

LossTimes losses_of(const DeviceProfile& device) {
  LossTimes times{};
  std::copy(device.idle.begin(), device.idle.end(), times.begin());
  times[kExposedLoss] = device.times.exposed_communication_ns;
  times[kCopyLoss] = device.times.exposed_memory_ns;
  times[kStartUpLoss] = device.start_up_lost_ns();
  return times;
}

LossTimes unnamed_losses(const DeviceProfile& device, const std::vector<Finding>& findings) {
  LossTimes rest = losses_of(device);
  rest[kStartUpLoss] = 0;
  for (const Finding& finding : findings) {
    for (const NamedLoss& named : finding.named) {
      if (named.device == device.index) {
        rest[named.kind] -= std::min(rest[named.kind], named.ns);
      }
    }
  }
  return rest;
}

std::vector<LostTime> lost_times(const Profile& profile, const std::vector<Finding>& findings) {
  std::vector<LostTime> result;
  for (const DeviceProfile& device : profile.devices) {
    const int64_t lost = sum_of(losses_of(device));
    const int64_t rest = sum_of(unnamed_losses(device, findings));
    result.push_back({device.rank, device.device, device.whole.window_ns, lost, lost - rest, rest});
  }
  return result;
}

std::vector<Finding> find_unattributed(const Profile& profile,
                                       const std::vector<Finding>& findings) {
  const std::vector<LossOn> losses =
      losses_of(profile, kWarnShare, [&](const DeviceProfile& device) {
        const LossTimes rest = unnamed_losses(device, findings);
        const int64_t left = rest_of(device, rest);
        const bool unknown =
            !is_attributed(device) && device.share(std::min(left, unknown_of(rest))) >= kWarnShare;
        return unknown || device.share(left) >= kMostUnnamed ? left : int64_t{0};
      });
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  const LossTimes rest = unnamed_losses(worst, findings);
  Finding finding = loss_finding("latency.unattributed", losses, Comes::kNowAndThen);
  finding.title = title_of(worst, rest);
  finding.culprits.clear();
  if (is_detail(worst, sum_of(rest), findings)) {
    finding.severity = Severity::kInfo;
  }
  finding.values = {{"idle_ns", sum_of(rest) - rest[kExposedLoss] - rest[kCopyLoss]},
                    {"exposed_ns", rest[kExposedLoss]},
                    {"copy_ns", rest[kCopyLoss]},
                    {"unattributed_percent", percent_of(worst, sum_of(rest))},
                    {"total_idle_ns", worst.times.idle_ns}};
  for (const size_t kind : largest_first(rest)) {
    if (worst.share(rest[kind]) >= kUnnamedPart) {
      finding.evidence.push_back(fmt::format("rank {}: {} of {}: {}", worst.rank.value,
                                             ms_text(rest[kind]), name_with_cause(kind),
                                             rule_of(worst, kind)));
    }
  }
  finding.advice =
      is_attributed(worst) && 2 * unknown_of(rest) < sum_of(rest)
          ? "each is too small for a finding of its own: traintrace report --by=cause has all"
          : "record all events, from before the first launch, in a window of several steps";
  return {finding};
}

}  // namespace traintrace
