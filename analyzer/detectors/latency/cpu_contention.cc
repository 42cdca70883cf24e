// The same launch calls take much longer on one rank than on the others, and its GPU waits for
// them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

using Calls = std::vector<const HostCall*>;

int64_t median_length(const Calls& calls) {
  std::vector<int64_t> lengths;
  for (const HostCall* call : calls) {
    lengths.push_back(call->end_ns - call->start_ns);
  }
  return upper_median(std::move(lengths));
}

// Of each timeline, those of the function that launches most; none where one of them has too few.
std::vector<Calls> launches_of(const std::vector<Timeline>& timelines, std::string& function) {
  std::map<std::string, std::vector<Calls>> functions;
  for (size_t i = 0; i < timelines.size(); ++i) {
    for (const HostCall& call : timelines[i].calls) {
      const std::string& name = timelines[i].names[call.name];
      if (call.correlation != 0 && name.find("LaunchKernel") != name.npos) {
        std::vector<Calls>& calls = functions[name];
        calls.resize(timelines.size());
        calls[i].push_back(&call);
      }
    }
  }
  const auto fewest = [](const std::vector<Calls>& calls) {
    return std::min_element(calls.begin(), calls.end(),
                            [](const Calls& a, const Calls& b) { return a.size() < b.size(); })
        ->size();
  };
  std::vector<Calls> best;
  for (auto& [name, calls] : functions) {
    if (fewest(calls) >= std::max(kContentionCalls, best.empty() ? 0 : fewest(best) + 1)) {
      best = std::move(calls);
      function = name;
    }
  }
  return best;
}

// What calls take beyond `usual_ns`.
int64_t extra_ns(const Calls& calls, int64_t usual_ns) {
  std::vector<Span> extra;
  for (const HostCall* call : calls) {
    extra.push_back({call->start_ns, std::max(call->start_ns, call->end_ns - usual_ns)});
  }
  return length_ns(united(std::move(extra)));
}

struct Contention {
  std::string function;
  int64_t usual_ns = 0;
  std::vector<int64_t> median_ns;  // by timeline
  std::vector<int64_t> extra_ns;   // 0: this rank's calls are not slow
};

std::optional<Contention> find_slow_calls(const std::vector<Timeline>& timelines) {
  Contention found;
  if (timelines.size() < kContentionRanks) {
    return std::nullopt;
  }
  const std::vector<Calls> launches = launches_of(timelines, found.function);
  if (launches.empty()) {
    return std::nullopt;
  }
  std::transform(launches.begin(), launches.end(), std::back_inserter(found.median_ns),
                 median_length);
  found.usual_ns = upper_median(found.median_ns);
  size_t slow = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    const bool is_slow = found.median_ns[i] - found.usual_ns >= kContentionSlowerNs &&
                         found.median_ns[i] / kContentionSlower >= found.usual_ns;
    found.extra_ns.push_back(is_slow ? extra_ns(launches[i], found.usual_ns) : 0);
    slow += is_slow ? 1 : 0;
  }
  return 2 * slow < launches.size() ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace

std::vector<Finding> find_cpu_contention(const Profile& profile) {
  const std::optional<Contention> found = find_slow_calls(profile.timelines);
  if (!found) {
    return {};
  }
  const std::vector<LossOn> losses =
      idle_losses_of(profile, kWarnShare, [&](const DeviceProfile& device) {
        const int64_t late = late_loss(device, kWarnShare);
        // Where the GPU has work meanwhile, its queue may be full: then launches wait for it.
        return is_attributed(device) ? std::min(late, found->extra_ns[device.timeline]) : 0;
      });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.cpu-contention", losses);
  const DeviceProfile& worst = *losses.front().device;
  const int64_t median_ns = found->median_ns[worst.timeline];
  for (const LossOn& loss : losses) {
    name_loss(*loss.device, static_cast<size_t>(IdleCause::kLaunchCall), loss.ns, finding);
  }
  finding.title =
      fmt::format("{}: {} takes {:.1f} us on rank {}, {:.1f} us on others", idle_text(losses),
                  found->function, static_cast<double>(median_ns) / 1e3, worst.rank.value,
                  static_cast<double>(found->usual_ns) / 1e3);
  finding.values = {{"idle_ns", losses.front().ns},
                    {"extra_ns", found->extra_ns[worst.timeline]},
                    {"median_ns", median_ns},
                    {"usual_ns", found->usual_ns}};
  finding.advice =
      "see what else runs on the cores of these ranks: other jobs, too few cores for loader "
      "workers, a quota, another NUMA node, a lower clock";
  return {finding};
}

}  // namespace traintrace
