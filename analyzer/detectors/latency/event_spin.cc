// A thread asks in a tight loop whether an event or a stream has come to its end.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/lost_time/latency_finding.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

struct Loop {
  size_t queries = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

struct Polling {
  std::vector<Span> loops;
  size_t queries = 0;
  const HostCall* longest = nullptr;  // the last query of the longest loop
  int64_t longest_ns = 0;
  int64_t ns() const { return length_ns(united(loops)); }
};

bool is_query(const std::string& name) {
  return name.find("EventQuery") != name.npos || name.find("StreamQuery") != name.npos;
}

void close(const Loop& loop, const HostCall& last, Polling& polling) {
  if (loop.queries < kTightLoop) {
    return;
  }
  polling.loops.push_back({loop.begin_ns, loop.end_ns});
  polling.queries += loop.queries;
  if (polling.longest == nullptr || loop.end_ns - loop.begin_ns > polling.longest_ns) {
    polling.longest_ns = loop.end_ns - loop.begin_ns;
    polling.longest = &last;
  }
}

// Of the thread that polls longest.
Polling polling_of(const Timeline& timeline) {
  std::vector<std::vector<const HostCall*>> calls(timeline.threads.size());
  for (const HostCall& call : timeline.calls) {
    calls[call.thread].push_back(&call);
  }
  Polling worst;
  for (const std::vector<const HostCall*>& thread : calls) {
    Polling polling;
    Loop loop;
    const HostCall* last = nullptr;
    for (const HostCall* call : thread) {
      const bool query = is_query(timeline.names[call->name]);
      if (loop.queries != 0 && (!query || call->start_ns - loop.end_ns > kTightNs)) {
        close(loop, *last, polling);
        loop = {};
      }
      if (query) {
        loop.begin_ns = loop.queries++ == 0 ? call->start_ns : loop.begin_ns;
        loop.end_ns = loop.queries == 1 ? call->end_ns : std::max(loop.end_ns, call->end_ns);
        last = call;
      }
    }
    if (loop.queries != 0) {
      close(loop, *last, polling);
    }
    if (polling.ns() > worst.ns()) {
      worst = std::move(polling);
    }
  }
  return worst;
}

}  // namespace

std::vector<Finding> find_event_spin(const Profile& profile) {
  std::vector<Polling> pollings;
  for (const Timeline& timeline : profile.timelines) {
    pollings.push_back(polling_of(timeline));
  }
  const std::vector<LossOn> losses =
      losses_of(profile, kWarnShare,
                [&](const DeviceProfile& device) { return pollings[device.timeline].ns(); });
  if (losses.empty()) {
    return {};
  }
  Finding finding = loss_finding("latency.event-spin", losses);
  const DeviceProfile& worst = *losses.front().device;
  const Polling& polling = pollings[worst.timeline];
  const Timeline& timeline = profile.timelines[worst.timeline];
  const std::string& call = timeline.names[polling.longest->name];
  finding.certainty = Certainty::kProof;
  finding.title =
      fmt::format("a thread of {} polls {} in a tight loop for {}", ranks_text(finding.culprits),
                  call, share_text(worst, losses.front().ns));
  finding.sides = {finding.culprits};
  finding.culprits.clear();  // it takes a core, which need not cost anything
  finding.values = {{"polled_ns", losses.front().ns},
                    {"query_count", static_cast<int64_t>(polling.queries)},
                    {"loop_count", static_cast<int64_t>(polling.loops.size())}};
  const uint32_t site = polling.longest->site;
  if (site != kNoName) {
    finding.where = {place_of(worst.rank, {IdleCause::kHostBound, call, timeline.names[site]})};
  }
  finding.advice =
      "cudaEventSynchronize (with cudaEventBlockingSync to sleep) waits without taking a core";
  return {finding};
}

}  // namespace traintrace
