#include "analyzer/timeline/blocking.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/timeline/predecessors.h"

namespace traintrace {
namespace {

// How far waiting is followed through copies and sets.
constexpr int kMostHops = 64;

// When the kernel of NCCL that `next` waits for ends; none: it waits for none.
std::optional<int64_t> end_of_awaited(const Predecessors& predecessors, const GpuWork& next) {
  const GpuWork* work = &next;
  for (int hop = 0; hop < kMostHops; ++hop) {
    const Predecessor awaited = predecessors.of(*work);
    work = awaited.work;
    if (!awaited.known || work == nullptr || work->kind == WorkKind::kCompute) {
      return std::nullopt;
    }
    if (work->kind == WorkKind::kCommunication) {
      return work->end_ns;
    }
  }
  return std::nullopt;
}

std::unordered_map<uint64_t, int64_t> times_of_launches(const Timeline& timeline) {
  std::unordered_map<uint64_t, int64_t> times;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      times[call.correlation] = call.start_ns;
    }
  }
  return times;
}

}  // namespace

std::optional<Spans> blocking_communication(const Timeline& timeline,
                                            std::span<const GpuWork> work) {
  if (!timeline.knows_waits) {
    return std::nullopt;
  }
  const Predecessors predecessors(timeline);
  const std::unordered_map<uint64_t, int64_t> launched = times_of_launches(timeline);
  std::vector<Span> communication, blocked;
  int64_t computed = work.empty() ? 0 : work.front().start_ns;  // until then
  for (const GpuWork& each : work) {
    if (each.kind == WorkKind::kCommunication) {
      communication.push_back({each.start_ns, each.end_ns});
    }
    if (each.kind != WorkKind::kCompute) {
      continue;
    }
    const auto launch = launched.find(each.correlation);
    if (each.start_ns > computed && launch != launched.end()) {
      if (const auto end = end_of_awaited(predecessors, each)) {
        blocked.push_back({std::max(computed, launch->second), std::min(each.start_ns, *end)});
      }
    }
    computed = std::max(computed, each.end_ns);
  }
  return common(united(std::move(communication)), united(std::move(blocked)));
}

}  // namespace traintrace
