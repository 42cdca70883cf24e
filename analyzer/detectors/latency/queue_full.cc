// Launches that take long because a stream's queue has no room: the host is far ahead.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

struct Launch {
  const HostCall* call;
  int64_t begun_ns;  // the first that it launched
};

struct Queue {
  std::vector<int64_t> launched, begun;  // sorted; a graph counts once
  int64_t depth(int64_t at_ns) const {
    const auto until = [&](const std::vector<int64_t>& times) {
      return std::lower_bound(times.begin(), times.end(), at_ns) - times.begin();
    };
    return until(launched) - until(begun);
  }
};

struct Blocked {
  Spans spans;
  size_t calls = 0;
  int64_t deepest = 0;
};

using Stream = std::pair<int32_t, int32_t>;  // device, stream

std::map<Stream, std::vector<Launch>> launches_of(const Timeline& timeline) {
  std::unordered_map<uint64_t, const HostCall*> calls;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      calls[call.correlation] = &call;
    }
  }
  std::map<Stream, std::vector<Launch>> streams;
  for (const GpuWork& work : timeline.work) {
    const auto call = calls.find(work.correlation);
    if (call != calls.end()) {
      streams[{work.device, work.stream}].push_back({call->second, work.start_ns});
      calls.erase(call);
    }
  }
  return streams;
}

Queue queue_of(const std::vector<Launch>& launches) {
  Queue queue;
  for (const Launch& launch : launches) {
    queue.launched.push_back(launch.call->start_ns);
    queue.begun.push_back(std::max(launch.begun_ns, launch.call->start_ns));
  }
  std::sort(queue.launched.begin(), queue.launched.end());
  std::sort(queue.begun.begin(), queue.begun.end());
  return queue;
}

// By device.
std::map<int32_t, Blocked> blocked_in(const Timeline& timeline) {
  std::map<int32_t, Blocked> devices;
  for (const auto& [stream, launches] : launches_of(timeline)) {
    const Queue queue = queue_of(launches);
    std::vector<Span> spans;
    Blocked& blocked = devices[stream.first];
    for (const auto& [call, begun_ns] : launches) {
      if (call->kind != HostCallKind::kOther || call->end_ns - call->start_ns <= kQueueFullNs) {
        continue;
      }
      const int64_t depth = queue.depth(call->start_ns);
      if (depth >= kQueueFull) {
        spans.push_back({call->start_ns, call->end_ns});
        ++blocked.calls;
        blocked.deepest = std::max(blocked.deepest, depth);
      }
    }
    blocked.spans = united(blocked.spans, united(std::move(spans)));
  }
  return devices;
}

}  // namespace

std::vector<Finding> find_full_queues(const Profile& profile) {
  std::vector<std::map<int32_t, Blocked>> blocked;
  for (const Timeline& timeline : profile.timelines) {
    blocked.push_back(blocked_in(timeline));
  }
  const std::vector<LossOn> losses =
      losses_of(profile, kWarnShare, [&](const DeviceProfile& device) {
        return length_ns(blocked[device.timeline][device.device].spans);
      });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.queue-full", losses);
  const DeviceProfile& worst = *losses.front().device;
  const Blocked& most = blocked[worst.timeline][worst.device];
  finding.title = fmt::format(
      "launches of {} wait for room in a full queue for {}: the host is as far ahead of the GPU as "
      "it can be",
      ranks_text(finding.culprits), share_text(worst, losses.front().ns));
  finding.sides = {finding.culprits};
  finding.culprits.clear();  // this is how it should be
  finding.values = {{"blocked_ns", losses.front().ns},
                    {"call_count", static_cast<int64_t>(most.calls)},
                    {"queued_count", most.deepest}};
  return {finding};
}

}  // namespace traintrace
