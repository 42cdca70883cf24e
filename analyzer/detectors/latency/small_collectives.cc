// Many collectives that carry little, one after the other, while nothing is computed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/detectors/lost_time/launch_places.h"
#include "analyzer/detectors/lost_time/small_collectives.h"
#include "analyzer/detectors/lost_time/time_account.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

struct Collectives {
  std::vector<Span> spans;
  std::vector<int64_t> bytes, times;
  std::vector<size_t> work;  // in Timeline::work
};
using ByPlace = std::map<std::pair<uint32_t, uint32_t>, Collectives>;  // operation, group

ByPlace small_ones(const Timeline& timeline, const DeviceProfile& device,
                   std::vector<Span>& computed) {
  ByPlace result;
  for (size_t i = 0; i < timeline.work.size(); ++i) {
    const GpuWork& work = timeline.work[i];
    if (work.device != device.device || work.start_ns < device.loop.begin_ns) {
      continue;
    }
    if (work.kind == WorkKind::kCompute) {
      computed.push_back({work.start_ns, work.end_ns});
    }
    const CollectiveNote* const note = work.kind == WorkKind::kCommunication
                                           ? collective_note(timeline, work.correlation)
                                           : nullptr;
    if (note != nullptr && note->operation != kNoName && note->bytes >= 0 &&
        note->bytes <= kSmallCollectiveBytes) {
      Collectives& all = result[{note->operation, note->group}];
      all.spans.push_back({work.start_ns, work.end_ns});
      all.bytes.push_back(note->bytes);
      all.times.push_back(work.end_ns - work.start_ns);
      all.work.push_back(i);
    }
  }
  return result;
}

// What waits for another rank does so first, and the transfer takes what the shortest ones take.
void leave_out_waiting(Collectives& all) {
  std::vector<int64_t> times = all.times;
  const auto short_one = times.begin() + static_cast<ptrdiff_t>(times.size() / 10);
  std::nth_element(times.begin(), short_one, times.end());
  for (Span& span : all.spans) {
    span.begin_ns = std::max(span.begin_ns, span.end_ns - 2 * *short_one);
  }
}

std::vector<size_t> all_but_first(const Timeline& timeline, const DeviceProfile& device,
                                  const std::vector<size_t>& works) {
  std::vector<size_t> others;
  std::set<size_t> begun;  // parts of the window
  for (const size_t work : works) {
    if (!begun.insert(part_of_window(device, timeline.work[work].start_ns)).second) {
      others.push_back(work);
    }
  }
  return others;
}

// Where most of the time of collectives is waiting, fewer of them would wait as long.
bool is_waiting(const Profile& profile, const DeviceProfile& device) {
  return collective_times(profile, device).waited_ns > device.times.communication_ns / 2;
}

}  // namespace

SmallCollectives small_collectives(const Profile& profile, const DeviceProfile& device) {
  const Timeline& timeline = profile.timelines[device.timeline];
  SmallCollectives worst;
  if (device.steps < 2 || is_waiting(profile, device)) {
    return worst;
  }
  std::vector<Span> computed;
  ByPlace places = small_ones(timeline, device, computed);
  const Spans busy = united(std::move(computed));
  for (auto& [place, all] : places) {
    const Spans whole = united(all.spans);
    leave_out_waiting(all);
    const Spans spans = united(all.spans);
    const int64_t exposed = length_ns(spans) - common_ns(spans, busy);
    if (all.spans.size() < kManyPerStep * device.steps || exposed <= worst.exposed_ns ||
        device.share(exposed) < kWarnShare) {
      continue;
    }
    worst = {timeline.names[place.first],
             place.second == kNoName ? "" : timeline.names[place.second],
             all.spans.size(),
             upper_median(all.bytes),
             upper_median(all.times),
             exposed,
             all_but_first(timeline, device, all.work),
             length_ns(whole) - common_ns(whole, busy)};
  }
  return worst;
}

std::vector<Finding> find_small_collectives(const Profile& profile) {
  const std::vector<LossOn> losses = losses_of(
      profile, kWarnShare,
      [&](const DeviceProfile& device) { return small_collectives(profile, device).exposed_ns; });
  if (losses.empty()) {
    return {};
  }
  const DeviceProfile& worst = *losses.front().device;
  const SmallCollectives small = small_collectives(profile, worst);
  const auto steps = static_cast<size_t>(worst.steps);
  Finding finding = loss_finding("latency.small-collectives", losses);
  finding.title = fmt::format(
      "{} in each step of {} carry {} bytes at the median: {} is theirs alone",
      fmt::format("{} calls of {}", small.count / steps, small.operation),
      ranks_text(finding.culprits), small.median_bytes, share_text(worst, small.exposed_ns));
  finding.culprits.clear();
  for (const LossOn& loss : losses) {
    name_loss(*loss.device, kExposedLoss, small_collectives(profile, *loss.device).whole_ns,
              finding);
  }
  finding.values = {{"exposed_ns", small.exposed_ns},
                    {"exposed_percent", percent_of(worst, small.exposed_ns)},
                    {"collective_count", static_cast<int64_t>(small.count)},
                    {"bytes", small.median_bytes},
                    {"median_ns", small.median_ns}};
  finding.evidence.push_back(
      fmt::format("one takes {:.1f} us at the median{}; nothing is computed meanwhile",
                  static_cast<double>(small.median_ns) / 1e3,
                  small.group.empty() ? "" : ", all on communicator " + small.group));
  if (small.whole_ns > small.exposed_ns) {
    finding.evidence.push_back(
        fmt::format("rank {}: {} more they wait, for other ranks or their hosts", worst.rank.value,
                    ms_text(small.whole_ns - small.exposed_ns)));
  }
  add_launch_places(worst, launch_places(profile.timelines[worst.timeline], small.others), finding);
  if (!knows_arrivals(profile)) {
    finding.certainty = Certainty::kPossible;
    finding.evidence.push_back("how much of it is waiting for other ranks is not known");
  }
  finding.advice =
      "put what they carry into few large ones (gradient buckets, coalescing, a flat buffer)";
  return {finding};
}

}  // namespace traintrace
