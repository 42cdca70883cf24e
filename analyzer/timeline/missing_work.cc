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

// A call and those within it, of which one has the work.
struct Launch {
  int64_t end_ns = INT64_MIN;
  bool has_work = false;
};

}  // namespace

MissingWork missing_work(const Timeline& timeline) {
  MissingWork result;
  if (!timeline.call_stacks.empty()) {  // of our own traces, which count what they lost
    return result;
  }
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
  std::vector<Launch> open(timeline.threads.size());
  const auto close = [&](Launch& launch) {
    if (launch.end_ns == INT64_MIN) {
      return;
    }
    ++result.launches;
    result.missing += launch.has_work ? 0 : 1;
    result.at_end = launch.has_work ? 0 : result.at_end + 1;
  };
  int capturing = 0;  // what is captured into a graph runs only in its replays
  for (const HostCall& call : timeline.calls) {
    capturing += begins[call.name] ? 1 : ends[call.name] ? -1 : 0;
    if (call.correlation == 0 || !counts[call.name] || capturing > 0) {
      continue;
    }
    Launch& launch = open[call.thread];
    if (call.start_ns >= launch.end_ns) {
      close(launch);
      launch = {call.end_ns, false};
    }
    launch.has_work = launch.has_work || with_work.contains(call.correlation);
  }
  for (Launch& launch : open) {
    close(launch);
  }
  return result;
}

}  // namespace traintrace
