#include "analyzer/timeline/predecessors.h"

#include <algorithm>

namespace traintrace {

Predecessors::Predecessors(const Timeline& timeline) : timeline_(timeline) {
  if (!timeline.knows_waits) {
    return;
  }
  for (const WorkWait& wait : timeline.waits) {
    last_to_end_.try_emplace(wait.before, nullptr);
  }
  for (const GpuWork& work : timeline.work) {
    if (work.stream >= 0) {
      streams_[{work.device, work.stream}].push_back(&work);
    }
    if (const auto waited = last_to_end_.find(work.correlation);
        work.correlation != 0 && waited != last_to_end_.end() &&
        (waited->second == nullptr || waited->second->end_ns < work.end_ns)) {
      waited->second = &work;
    }
  }
}

// The last that began earlier.
const GpuWork* Predecessors::before_on_stream(const GpuWork& work) const {
  const auto stream = streams_.find({work.device, work.stream});
  if (stream == streams_.end()) {
    return nullptr;
  }
  const auto after =
      std::lower_bound(stream->second.begin(), stream->second.end(), work.start_ns,
                       [](const GpuWork* each, int64_t time) { return each->start_ns < time; });
  return after == stream->second.begin() ? nullptr : *(after - 1);
}

Predecessor Predecessors::of(const GpuWork& work) const {
  Predecessor found;
  if (!timeline_.knows_waits || work.correlation == 0 || work.stream < 0) {
    return found;
  }
  found.known = true;
  found.work = before_on_stream(work);
  const auto first = std::lower_bound(timeline_.waits.begin(), timeline_.waits.end(),
                                      WorkWait{work.correlation, 0});
  for (auto wait = first; wait != timeline_.waits.end() && wait->correlation == work.correlation;
       ++wait) {
    if (wait->before == WorkWait::kPeers) {
      found.peers = true;
      continue;
    }
    const GpuWork* const before = last_to_end_.find(wait->before)->second;
    if (wait->before == WorkWait::kUnknown || before == nullptr) {
      found.known = false;  // or its record was lost
    } else if (found.work == nullptr || found.work->end_ns < before->end_ns) {
      found.work = before;
    }
  }
  return found;
}

}  // namespace traintrace
