#include "analyzer/timeline/idle.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/timeline/spans.h"

namespace traintrace {

const std::array<const char*, kIdleCauses> kIdleCauseNames = {
    "data-starvation", "sync-induced",       "allocator",      "host-peer-wait", "host-bound",
    "launch-latency",  "communication-wait", "straggler-wait", "copy-wait",      "kernel-gap",
    "dependency",      "graph-internal",     "unattributed"};

namespace {

// Below it, a GPU that has its work does not begin it sooner.
constexpr int64_t kKernelGapNs = 10'000;

// What is asked of a thread again and again.
struct Thread {
  std::vector<int64_t> blocking_ends;  // in order
  std::array<Spans, 3> busy;           // in the loader, in the allocator, waiting for peers
};
constexpr std::array kBusyKinds = {HostCallKind::kLoader, HostCallKind::kAllocator,
                                   HostCallKind::kPeerWait};
constexpr std::array kBusyCauses = {IdleCause::kDataStarvation, IdleCause::kAllocator,
                                    IdleCause::kHostPeerWait};

Spans within(const Spans& spans, const Span& window) {
  Spans result;
  auto at = std::upper_bound(spans.begin(), spans.end(), window.begin_ns,
                             [](int64_t begin, const Span& span) { return begin < span.end_ns; });
  for (; at != spans.end() && at->begin_ns < window.end_ns; ++at) {
    result.push_back(
        {std::max(at->begin_ns, window.begin_ns), std::min(at->end_ns, window.end_ns)});
  }
  return result;
}

class Attribution {
 public:
  explicit Attribution(const Timeline& timeline);
  void add(const Span& gap, const GpuWork& next, const GpuWork& before);
  const IdleTimes& times() const { return times_; }

 private:
  void add(IdleCause cause, int64_t ns) { times_[static_cast<size_t>(cause)] += ns; }
  void add_late_host(const Span& late, const HostCall& launch);
  bool is_graph_launch(const HostCall& call) const {
    const std::string& name = timeline_.names[call.name];
    return name.starts_with("cudaGraphLaunch") || name.starts_with("cuGraphLaunch");
  }

  const Timeline& timeline_;
  std::unordered_map<uint64_t, const HostCall*> launches_;
  std::vector<Thread> threads_;
  IdleTimes times_{};
};

Attribution::Attribution(const Timeline& timeline)
    : timeline_(timeline), threads_(timeline.threads.size()) {
  std::vector<std::array<std::vector<Span>, 3>> busy(threads_.size());
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launches_[call.correlation] = &call;
    }
    if (call.kind == HostCallKind::kBlocking) {
      threads_[call.thread].blocking_ends.push_back(call.end_ns);
    }
    for (size_t i = 0; i < kBusyKinds.size(); ++i) {
      if (call.kind == kBusyKinds[i]) {
        busy[call.thread][i].push_back({call.start_ns, call.end_ns});
      }
    }
  }
  for (size_t thread = 0; thread < threads_.size(); ++thread) {
    std::sort(threads_[thread].blocking_ends.begin(), threads_[thread].blocking_ends.end());
    for (size_t i = 0; i < kBusyKinds.size(); ++i) {
      threads_[thread].busy[i] = united(std::move(busy[thread][i]));
    }
  }
}

// The loader comes first: a copy that blocks right after it must not take the blame.  Time before
// the return of a blocking call and after it are the same loss, for the queue was empty.  But a
// call that blocks by itself is no refill: what it launches comes when the host calls it.
void Attribution::add_late_host(const Span& late, const HostCall& launch) {
  const Thread& thread = threads_[launch.thread];
  const Spans loading = within(thread.busy[0], late);
  int64_t left = late.end_ns - late.begin_ns - length_ns(loading);
  add(IdleCause::kDataStarvation, length_ns(loading));
  const auto returned =
      std::lower_bound(thread.blocking_ends.begin(), thread.blocking_ends.end(), late.begin_ns);
  if (returned != thread.blocking_ends.end() && *returned <= late.end_ns &&
      launch.kind != HostCallKind::kBlocking) {
    return add(IdleCause::kSyncInduced, left);
  }
  Spans explained = loading;
  for (size_t i = 1; i < kBusyKinds.size(); ++i) {
    const int64_t before = length_ns(explained);
    explained = united(explained, within(thread.busy[i], late));
    add(kBusyCauses[i], length_ns(explained) - before);
    left -= length_ns(explained) - before;
  }
  add(IdleCause::kHostBound, left);
}

void Attribution::add(const Span& gap, const GpuWork& next, const GpuWork& before) {
  const int64_t length = gap.end_ns - gap.begin_ns;
  const auto found = next.correlation == 0 ? launches_.end() : launches_.find(next.correlation);
  if (found == launches_.end()) {
    return add(IdleCause::kUnattributed, length);
  }
  const HostCall& launch = *found->second;
  if (launch.start_ns > gap.begin_ns) {
    // A launch cannot come after what it launched, but clocks of host and device may say so.
    const int64_t launched = std::min(launch.start_ns, gap.end_ns);
    add(IdleCause::kLaunchLatency, gap.end_ns - launched);
    return add_late_host({gap.begin_ns, launched}, launch);
  }
  if (is_graph_launch(launch) && before.correlation == next.correlation) {
    return add(IdleCause::kGraphInternal, length);
  }
  add(length < kKernelGapNs ? IdleCause::kKernelGap : IdleCause::kDependency, length);
}

}  // namespace

IdleTimes idle_by_cause(const Timeline& timeline, std::span<const GpuWork> work) {
  if (work.empty()) {
    return {};
  }
  Attribution attribution(timeline);
  const GpuWork* last = &work[0];  // of those so far, the one that ends last
  for (const GpuWork& next : work.subspan(1)) {
    if (next.start_ns > last->end_ns) {
      attribution.add({last->end_ns, next.start_ns}, next, *last);
    }
    if (next.end_ns > last->end_ns) {
      last = &next;
    }
  }
  return attribution.times();
}

}  // namespace traintrace
