#include "analyzer/timeline/partition.h"

#include <algorithm>
#include <array>
#include <vector>

#include "analyzer/timeline/spans.h"

namespace traintrace {

std::optional<int64_t> TimePartition::overlap_percent_e4() const {
  constexpr __int128 kWhole = 1'000'000;
  if (communication_ns == 0) {
    return std::nullopt;
  }
  return static_cast<int64_t>((2 * kWhole * overlap_ns + communication_ns) /
                              (2 * static_cast<__int128>(communication_ns)));
}

TimePartition partition_of(std::span<const GpuWork> work) {
  TimePartition times;
  if (work.empty()) {
    return times;
  }
  std::array<std::vector<Span>, 3> by_kind;
  int64_t begin = work[0].start_ns;
  int64_t end = work[0].end_ns;
  for (const GpuWork& one : work) {
    by_kind[static_cast<size_t>(one.kind)].push_back({one.start_ns, one.end_ns});
    begin = std::min(begin, one.start_ns);
    end = std::max(end, one.end_ns);
  }
  const auto spans_of = [&](WorkKind kind) {
    return united(std::move(by_kind[static_cast<size_t>(kind)]));
  };
  const Spans compute = spans_of(WorkKind::kCompute);
  const Spans communication = spans_of(WorkKind::kCommunication);
  const Spans memory = spans_of(WorkKind::kMemory);
  const Spans without_memory = united(compute, communication);
  times.window_ns = end - begin;
  times.compute_ns = length_ns(compute);
  times.communication_ns = length_ns(communication);
  times.memory_ns = length_ns(memory);
  times.overlap_ns = common_ns(compute, communication);
  times.exposed_communication_ns = times.communication_ns - times.overlap_ns;
  times.exposed_memory_ns = times.memory_ns - common_ns(memory, without_memory);
  times.busy_ns = times.compute_ns + times.exposed_communication_ns + times.exposed_memory_ns;
  times.idle_ns = times.window_ns - times.busy_ns;
  return times;
}

std::vector<GpuWork> work_within(std::span<const GpuWork> work, const Span& window) {
  std::vector<GpuWork> result;
  for (const GpuWork& each : work) {
    if (each.start_ns >= window.end_ns) {
      break;
    }
    if (each.end_ns > window.begin_ns) {
      result.push_back(each);
      result.back().start_ns = std::max(each.start_ns, window.begin_ns);
      result.back().end_ns = std::min(each.end_ns, window.end_ns);
    }
  }
  return result;
}

TimePartition partition_of(std::span<const GpuWork> work, const Span& window) {
  TimePartition times = partition_of(work_within(work, window));
  times.window_ns = window.end_ns - window.begin_ns;
  times.idle_ns = times.window_ns - times.busy_ns;
  return times;
}

Span window_of(std::span<const GpuWork> work) {
  if (work.empty()) {
    return {};
  }
  Span window = {work[0].start_ns, work[0].end_ns};
  for (const GpuWork& one : work) {
    window = {std::min(window.begin_ns, one.start_ns), std::max(window.end_ns, one.end_ns)};
  }
  return window;
}

int64_t window_within(std::span<const GpuWork> work, const Spans& spans) {
  return work.empty() ? 0 : common_ns(spans, {window_of(work)});
}

int64_t idle_within(std::span<const GpuWork> work, const Spans& spans) {
  std::vector<Span> busy;
  for (const GpuWork& one : work) {
    busy.push_back({one.start_ns, one.end_ns});
  }
  return window_within(work, spans) - common_ns(spans, united(std::move(busy)));
}

}  // namespace traintrace
