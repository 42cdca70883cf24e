#include "analyzer/timeline/missing_work.h"

#include <string_view>
#include <unordered_set>
#include <vector>

namespace traintrace {
namespace {

bool launches_kernels(std::string_view call) {
  return call.find("LaunchKernel") != call.npos ||
         call.find("LaunchCooperativeKernel") != call.npos || call.find("GraphLaunch") != call.npos;
}

}  // namespace

std::vector<KernelLaunch> kernel_launches(const Timeline& timeline) {
  std::unordered_set<uint64_t> with_work;
  with_work.reserve(timeline.work.size());
  for (const GpuWork& work : timeline.work) {
    with_work.insert(work.correlation);
  }
  const auto named = [&](const auto& is_named) {
    std::vector<bool> flags;
    for (const std::string& name : timeline.names) {
      flags.push_back(is_named(std::string_view(name)));
    }
    return flags;
  };
  const std::vector<bool> counts = named(launches_kernels);
  const std::vector<bool> begins =
      named([](std::string_view name) { return name.find("StreamBeginCapture") != name.npos; });
  const std::vector<bool> ends =
      named([](std::string_view name) { return name.find("StreamEndCapture") != name.npos; });
  std::vector<KernelLaunch> launches;
  std::vector<size_t> last(timeline.threads.size(), SIZE_MAX);  // of each thread, in `launches`
  int capturing = 0;  // what is captured into a graph runs only in its replays
  for (const HostCall& call : timeline.calls) {
    capturing += begins[call.name] ? 1 : ends[call.name] ? -1 : 0;
    if (call.correlation == 0 || !counts[call.name] || capturing > 0) {
      continue;
    }
    size_t& launch = last[call.thread];
    if (launch == SIZE_MAX || call.start_ns >= launches[launch].end_ns) {
      launch = launches.size();
      launches.push_back({call.start_ns, call.end_ns, false});
    }
    launches[launch].has_work = launches[launch].has_work || with_work.contains(call.correlation);
  }
  return launches;
}

MissingWork missing_work(const Timeline& timeline) {
  if (timeline.by_host) {
    return {};
  }
  MissingWork result;
  for (const KernelLaunch& each : kernel_launches(timeline)) {
    ++result.launches;
    result.missing += each.has_work ? 0 : 1;
    result.at_end = each.has_work ? 0 : result.at_end + 1;
  }
  return result;
}

}  // namespace traintrace
