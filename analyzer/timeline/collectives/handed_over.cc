#include "analyzer/timeline/collectives/handed_over.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_set>

namespace traintrace {
namespace {

struct ThreadCalls {
  std::vector<Span> calls, blocking;
  std::vector<int64_t> kernels;  // when it launched each, in order
};

std::vector<ThreadCalls> calls_by_thread(const Timeline& timeline) {
  std::unordered_set<uint64_t> kernels;
  for (const std::vector<GpuWork>& each : {std::cref(timeline.work), std::cref(timeline.entries)}) {
    for (const GpuWork& work : each) {
      if (work.kind != WorkKind::kMemory) {
        kernels.insert(work.correlation);
      }
    }
  }
  std::vector<ThreadCalls> threads(timeline.threads.size());
  for (const HostCall& call : timeline.calls) {
    ThreadCalls& thread = threads[call.thread];
    thread.calls.push_back({call.start_ns, call.end_ns});
    if (call.kind == HostCallKind::kBlocking) {
      thread.blocking.push_back({call.start_ns, call.end_ns});
    }
    if (call.correlation != 0 && kernels.contains(call.correlation)) {
      thread.kernels.push_back(call.start_ns);
    }
  }
  return threads;
}

// When a thread that makes no call from `blocked.begin_ns` on makes the next; none: it makes one
// before `blocked.end_ns`, or no more.
std::optional<int64_t> next_call(const Spans& calls, const Span& blocked) {
  const auto after =
      std::upper_bound(calls.begin(), calls.end(), blocked.begin_ns,
                       [](int64_t time, const Span& call) { return time < call.end_ns; });
  if (after == calls.end() || after->begin_ns < blocked.end_ns) {
    return std::nullopt;
  }
  return after->begin_ns;
}

void add_turns_of(const ThreadCalls& other, const Spans& calls, std::vector<Span>& blocked) {
  for (const Span& each : other.blocking) {
    const std::optional<int64_t> until = next_call(calls, each);
    const auto kernel = std::lower_bound(other.kernels.begin(), other.kernels.end(), each.end_ns);
    if (until && kernel != other.kernels.end() && *kernel < *until) {
      blocked.push_back(each);
    }
  }
}

}  // namespace

std::vector<std::vector<Span>> blocked_elsewhere(const Timeline& timeline,
                                                 const std::vector<bool>& launching) {
  const std::vector<ThreadCalls> threads = calls_by_thread(timeline);
  std::vector<std::vector<Span>> blocked(threads.size());
  for (size_t thread = 0; thread < threads.size(); ++thread) {
    if (!launching[thread]) {
      continue;
    }
    const Spans calls = united(threads[thread].calls);
    for (size_t other = 0; other < threads.size(); ++other) {
      if (other != thread) {
        add_turns_of(threads[other], calls, blocked[thread]);
      }
    }
  }
  return blocked;
}

}  // namespace traintrace
