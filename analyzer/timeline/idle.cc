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

constexpr std::array kBusyKinds = {HostCallKind::kLoader, HostCallKind::kAllocator,
                                   HostCallKind::kPeerWait};
constexpr std::array kBusyCauses = {IdleCause::kDataStarvation, IdleCause::kAllocator,
                                    IdleCause::kHostPeerWait};

// What is asked of a thread again and again.
struct Thread {
  std::vector<const HostCall*> blocking;  // by end
  // In the loader, in the allocator, waiting for peers.
  std::array<Spans, kBusyKinds.size()> busy;
  std::array<std::vector<const HostCall*>, kBusyKinds.size()> calls;  // by start
};

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

const HostCall* last_begun(const std::vector<const HostCall*>& calls, int64_t before_ns) {
  const auto after =
      std::lower_bound(calls.begin(), calls.end(), before_ns,
                       [](const HostCall* call, int64_t time) { return call->start_ns < time; });
  return after == calls.begin() ? nullptr : *(after - 1);
}

class Attribution {
 public:
  Attribution(const Timeline& timeline, const std::function<void(const IdleCharge&)>& visit);
  void add(const Span& gap, const GpuWork& next, const GpuWork& before);

 private:
  void add(IdleCause cause, int64_t ns, const HostCall* call = nullptr) {
    if (ns != 0) {
      visit_({cause, ns, call});
    }
  }
  void add_late_host(const Span& late, const HostCall& launch);
  bool is_graph_launch(const HostCall& call) const {
    const std::string& name = timeline_.names[call.name];
    return name.starts_with("cudaGraphLaunch") || name.starts_with("cuGraphLaunch");
  }

  const Timeline& timeline_;
  const std::function<void(const IdleCharge&)>& visit_;
  std::unordered_map<uint64_t, const HostCall*> launches_;
  std::vector<Thread> threads_;
};

Attribution::Attribution(const Timeline& timeline,
                         const std::function<void(const IdleCharge&)>& visit)
    : timeline_(timeline), visit_(visit), threads_(timeline.threads.size()) {
  std::vector<std::array<std::vector<Span>, 3>> busy(threads_.size());
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launches_[call.correlation] = &call;
    }
    if (call.kind == HostCallKind::kBlocking) {
      threads_[call.thread].blocking.push_back(&call);
    }
    for (size_t i = 0; i < kBusyKinds.size(); ++i) {
      if (call.kind == kBusyKinds[i]) {
        busy[call.thread][i].push_back({call.start_ns, call.end_ns});
        threads_[call.thread].calls[i].push_back(&call);
      }
    }
  }
  for (size_t thread = 0; thread < threads_.size(); ++thread) {
    std::stable_sort(threads_[thread].blocking.begin(), threads_[thread].blocking.end(),
                     [](const HostCall* a, const HostCall* b) { return a->end_ns < b->end_ns; });
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
  add(IdleCause::kDataStarvation, length_ns(loading), last_begun(thread.calls[0], late.end_ns));
  const auto after =
      std::upper_bound(thread.blocking.begin(), thread.blocking.end(), late.end_ns,
                       [](int64_t time, const HostCall* call) { return time < call->end_ns; });
  const HostCall* returned = after == thread.blocking.begin() ? nullptr : *(after - 1);
  if (returned != nullptr && returned->end_ns >= late.begin_ns &&
      launch.kind != HostCallKind::kBlocking) {
    return add(IdleCause::kSyncInduced, left, returned);
  }
  Spans explained = loading;
  for (size_t i = 1; i < kBusyKinds.size(); ++i) {
    const int64_t before = length_ns(explained);
    explained = united(explained, within(thread.busy[i], late));
    add(kBusyCauses[i], length_ns(explained) - before, last_begun(thread.calls[i], late.end_ns));
    left -= length_ns(explained) - before;
  }
  add(IdleCause::kHostBound, left, &launch);
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
    add(IdleCause::kLaunchLatency, gap.end_ns - launched, &launch);
    return add_late_host({gap.begin_ns, launched}, launch);
  }
  if (is_graph_launch(launch) && before.correlation == next.correlation) {
    return add(IdleCause::kGraphInternal, length);
  }
  add(length < kKernelGapNs ? IdleCause::kKernelGap : IdleCause::kDependency, length);
}

}  // namespace

void visit_idle(const Timeline& timeline, std::span<const GpuWork> work,
                const std::function<void(const IdleCharge&)>& visit) {
  if (work.empty()) {
    return;
  }
  Attribution attribution(timeline, visit);
  const GpuWork* last = &work[0];  // of those so far, the one that ends last
  for (const GpuWork& next : work.subspan(1)) {
    if (next.start_ns > last->end_ns) {
      attribution.add({last->end_ns, next.start_ns}, next, *last);
    }
    if (next.end_ns > last->end_ns) {
      last = &next;
    }
  }
}

IdleTimes idle_by_cause(const Timeline& timeline, std::span<const GpuWork> work) {
  IdleTimes times{};
  visit_idle(timeline, work, [&](const IdleCharge& charge) {
    times[static_cast<size_t>(charge.cause)] += charge.ns;
  });
  return times;
}

}  // namespace traintrace
