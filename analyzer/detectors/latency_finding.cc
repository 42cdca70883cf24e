#include "analyzer/detectors/latency_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr size_t kMostLines = 16;
constexpr size_t kMostSites = 3;

std::string per_step_text(const DeviceProfile& device, int64_t ns) {
  return device.steps < 2
             ? ""
             : fmt::format(", {} in each of {} steps",
                           ms_text(ns / static_cast<int64_t>(device.steps)), device.steps);
}

// In half of the steps, at least twice.
size_t fewest_gaps(const DeviceProfile& device) {
  return std::max<size_t>(2, device.steps / 2);
}

std::vector<int64_t> gaps_of(const DeviceProfile& device, IdleCause cause) {
  std::vector<int64_t> gaps;
  for (const IdleSite& site : device.sites) {
    if (site.cause == cause) {
      gaps.insert(gaps.end(), site.gaps.begin(), site.gaps.end());
    }
  }
  return gaps;
}

}  // namespace

std::string ms_text(int64_t ns) {
  return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

std::string idle_text(const std::vector<LossOn>& losses) {
  Ranks ranks;
  for (const LossOn& loss : losses) {
    insert(ranks, loss.device->rank);
  }
  const LossOn& worst = losses.front();
  return fmt::format("the GPU{} of {} {} idle for {}{}", losses.size() == 1 ? "" : "s",
                     ranks_text(ranks), losses.size() == 1 ? "is" : "are",
                     losses.size() == 1 ? "" : "up to ", share_text(*worst.device, worst.ns));
}

bool is_repeated(const DeviceProfile& device, size_t gaps) {
  return gaps >= fewest_gaps(device);
}

int64_t repeated_ns(const DeviceProfile& device, std::vector<int64_t> gaps) {
  const size_t fewest = fewest_gaps(device);
  if (gaps.size() < fewest) {
    return 0;
  }
  const auto most = gaps.begin() + static_cast<ptrdiff_t>(fewest - 1);
  std::nth_element(gaps.begin(), most, gaps.end(), std::greater<>());
  int64_t sum = 0;
  for (const int64_t gap : gaps) {
    sum += std::min(gap, *most);
  }
  return sum;
}

int64_t repeated_loss(const DeviceProfile& device, IdleCause cause) {
  return device.share(repeated_ns(device, gaps_of(device, cause))) >= kWarnShare
             ? device.idle_for(cause)
             : 0;
}

int64_t late_loss(const DeviceProfile& device, double share) {
  int64_t ns = 0;
  int64_t repeated = 0;
  for (const IdleCause cause : {IdleCause::kHostBound, IdleCause::kLaunchLatency}) {
    ns += device.idle_for(cause);
    repeated += repeated_ns(device, gaps_of(device, cause));
  }
  return device.share(repeated) >= share ? ns : 0;
}

int64_t percent_of(const DeviceProfile& device, int64_t ns) {
  return std::llround(100 * device.share(ns));
}

std::string share_text(const DeviceProfile& device, int64_t ns) {
  return fmt::format("{:.1f} % of {}", 100 * device.share(ns), ms_text(device.times.window_ns));
}

bool is_attributed(const DeviceProfile& device) {
  const int64_t unknown =
      device.idle_for(IdleCause::kUnattributed) + device.idle_for(IdleCause::kDependency);
  return static_cast<double>(device.times.idle_ns - unknown) >=
         kKnownShare * static_cast<double>(device.times.idle_ns);
}

std::vector<LossOn> losses_of(const Profile& profile, double share,
                              const std::function<int64_t(const DeviceProfile&)>& loss) {
  std::vector<LossOn> losses;
  for (const DeviceProfile& device : profile.devices) {
    const int64_t ns = loss(device);
    if (ns > 0 && device.share(ns) >= share) {
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
      finding.evidence.size() < kMostLines) {
    finding.evidence.push_back(fmt::format(
        "rank {}: the profiler (CUPTI) worked for itself for {}, {} of it with the GPU idle",
        device.rank.value, ms_text(device.profiling_ns), ms_text(device.profiling_idle_ns)));
  }
}

Finding loss_finding(std::string_view code, const std::vector<LossOn>& losses) {
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  finding.certainty = Certainty::kLikely;
  for (const LossOn& loss : losses) {
    insert(finding.culprits, loss.device->rank);
    if (finding.evidence.size() < kMostLines) {
      finding.evidence.push_back(fmt::format("rank {}: {}, {}{}", loss.device->rank.value,
                                             ms_text(loss.ns), share_text(*loss.device, loss.ns),
                                             per_step_text(*loss.device, loss.ns)));
    }
  }
  const DeviceProfile& worst = *losses.front().device;
  add_profiling(worst, finding);
  const int64_t ns = losses.front().ns;
  finding.values = {{"idle_ns", ns}, {"idle_percent", percent_of(worst, ns)}};
  if (worst.steps > 1) {
    finding.values.emplace_back("idle_ns_per_step", ns / static_cast<int64_t>(worst.steps));
  }
  return finding;
}

void add_clocks(const Arrivals& arrivals, Finding& finding) {
  for (const ClockShift& shift : arrivals.clocks.shifts) {
    if (finding.evidence.size() < kMostLines) {
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
  if (arrivals.contradicted != 0 && finding.evidence.size() < kMostLines) {
    finding.evidence.push_back(
        fmt::format("without {} of {} collectives, whose ends differ by up to {:.3f} ms: who came "
                    "late to these is not known",
                    arrivals.contradicted, arrivals.list.size(),
                    static_cast<double>(arrivals.greatest_end_skew_ns) / 1e6));
  }
}

CodePlace place_of(Rank rank, const IdleSite& site) {
  // "FILE(LINE): FUNCTION", and functions of C++ have parentheses too.
  const size_t close = site.site.find("): ");
  const size_t open = close == site.site.npos ? close : site.site.rfind('(', close);
  if (open == site.site.npos) {
    return {rank, "", 0, site.call, "native"};
  }
  int line = 0;
  const char* text = site.site.data();
  std::from_chars(text + open + 1, text + close, line);
  const std::string file = site.site.substr(0, open);
  return {rank, file, std::max(line, 0), site.site.substr(close + 3),
          file.ends_with(".py") ? "python" : "c++"};
}

void add_sites(const std::vector<LossOn>& losses, const std::function<bool(IdleCause)>& cause,
               Finding& finding) {
  for (const LossOn& loss : losses) {
    size_t shown = 0;
    for (const IdleSite& site : loss.device->sites) {
      if (!cause(site.cause) || site.call.empty() || shown == kMostSites) {
        continue;
      }
      // A launch with no frame above it is no place in anybody's code.
      const bool tells = !site.site.empty() || site.cause != IdleCause::kHostBound;
      if (++shown == 1 && tells && finding.where.size() < kMostLines) {
        finding.where.push_back(place_of(loss.device->rank, site));
      }
      if (&loss == &losses.front()) {
        finding.evidence.push_back(fmt::format(
            "rank {}: {} in {} gaps at {}{}", loss.device->rank.value, ms_text(site.ns),
            site.gaps.size(), site.call, site.site.empty() ? "" : ", called by " + site.site));
      }
    }
  }
}

}  // namespace traintrace
