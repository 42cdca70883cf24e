#include "analyzer/timeline/idle.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/predecessors.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {

const std::array<const char*, kIdleCauses> kIdleCauseNames = {
    "data-starvation", "sync-induced", "allocator",      "host-peer-wait",     "host-bound",
    "lazy-load",       "launch-call",  "launch-latency", "communication-wait", "straggler-wait",
    "copy-wait",       "kernel-gap",   "dependency",     "graph-internal",     "unattributed"};

namespace {

// How far waiting is followed from work to work.
constexpr int kMostIdleHops = 64;

constexpr std::array kBusyKinds = {HostCallKind::kLoader, HostCallKind::kAllocator,
                                   HostCallKind::kPeerWait};
constexpr std::array kBusyCauses = {IdleCause::kDataStarvation, IdleCause::kAllocator,
                                    IdleCause::kHostPeerWait};

// Time of a thread that a call took while the GPU still had work: that much sooner it would have
// launched what came too late.
struct Owed {
  const HostCall* call = nullptr;
  int64_t ns = 0;
};

// Of a thread between two of its calls.
struct OwnTime {
  Span span;
  uint32_t spent_in;  // IdleCharge::spent_in
};

// What is asked of a thread again and again.
struct Thread {
  std::vector<const HostCall*> blocking;  // by end
  std::vector<const ThreadWait*> waits;   // by end
  Owed owed;                 // by the last call of the allocator that let the GPU run dry
  std::vector<OwnTime> own;  // by end; empty where no frames are known
  // In the loader, in the allocator, waiting for peers.
  std::array<Spans, kBusyKinds.size()> busy;
  std::array<std::vector<const HostCall*>, kBusyKinds.size()> calls;  // by start
};

const HostCall* last_begun(const std::vector<const HostCall*>& calls, int64_t before_ns) {
  const auto after =
      std::lower_bound(calls.begin(), calls.end(), before_ns,
                       [](const HostCall* call, int64_t time) { return call->start_ns < time; });
  return after == calls.begin() ? nullptr : *(after - 1);
}

// In that call and others, since the thread last gave a GPU work: which of them was blocked does
// not matter.
int64_t waited_with(const Thread& thread, const HostCall& returned) {
  const auto wait =
      std::lower_bound(thread.waits.begin(), thread.waits.end(), returned.end_ns,
                       [](const ThreadWait* each, int64_t time) { return each->until_ns < time; });
  return wait == thread.waits.end() ? returned.end_ns - returned.start_ns : (*wait)->ns;
}

class Attribution {
 public:
  Attribution(const Timeline& timeline, const std::function<void(const IdleCharge&)>& visit,
              std::span<const int64_t> cuts);
  void add(const Span& gap, const GpuWork& next, const GpuWork& before);

 private:
  void add(IdleCause cause, int64_t ns, const HostCall* call = nullptr,
           uint32_t spent_in = kNoName);
  void note_own_times();
  uint32_t spent_in(const Thread& thread, const Span& part) const;
  // Where the first cut after `begin_ns` shortens a span to `end_ns`.
  int64_t cut_short(int64_t begin_ns, int64_t end_ns) const {
    const auto cut = std::upper_bound(cuts_.begin(), cuts_.end(), begin_ns);
    return cut == cuts_.end() ? end_ns : std::min(*cut, end_ns);
  }
  // Calls that waited for the GPU, of the launching thread: the one that let it run dry, and the
  // last.  Null: there are none.
  struct Waits {
    const HostCall* first = nullptr;
    const HostCall* last = nullptr;
  };
  Waits waits_in(const Span& late, const HostCall& launch);
  void add_late_host(const Span& late, const HostCall& launch);
  int64_t add_late_part(const Span& part, const HostCall& launch, const HostCall* returned,
                        int64_t most_induced_ns);
  void note_owed(int64_t dry_ns, const HostCall* last_wait, Thread& thread) const;
  void add_launched(const Span& gap, const GpuWork& next, const GpuWork& before,
                    const HostCall& launch);
  void add_device_side(const Span& gap, const GpuWork& next, const GpuWork& before);
  bool is_first_use(const GpuWork& work) const;
  void add_while_others_ran(Span part, const GpuWork& awaited, int hops);
  void add_communication(const Span& part, const GpuWork& work);
  bool is_graph_launch(const HostCall& call) const {
    const std::string& name = timeline_.names[call.name];
    return name.starts_with("cudaGraphLaunch") || name.starts_with("cuGraphLaunch") ||
           name.starts_with("hipGraphLaunch");
  }

  const Timeline& timeline_;
  const std::function<void(const IdleCharge&)>& visit_;
  std::span<const int64_t> cuts_;
  int64_t charged_until_ns_ = 0;                                 // in the gap
  int64_t late_until_ns_ = std::numeric_limits<int64_t>::min();  // the host, last
  std::unordered_map<uint64_t, const HostCall*> launches_;
  std::unordered_map<uint32_t, int64_t> first_use_;  // by name: when work of it first began
  std::vector<Thread> threads_;
  Predecessors predecessors_;
  const GpuWork* next_ = nullptr;
  Span gap_{};
};

Attribution::Attribution(const Timeline& timeline,
                         const std::function<void(const IdleCharge&)>& visit,
                         std::span<const int64_t> cuts)
    : timeline_(timeline),
      visit_(visit),
      cuts_(cuts),
      threads_(timeline.threads.size()),
      predecessors_(timeline) {
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
  note_own_times();
  for (const ThreadWait& wait : timeline.thread_waits) {
    threads_[wait.thread].waits.push_back(&wait);
  }
  for (const GpuWork& work : timeline.work) {
    first_use_.try_emplace(work.name, work.start_ns);
  }
  for (size_t thread = 0; thread < threads_.size(); ++thread) {
    std::stable_sort(threads_[thread].blocking.begin(), threads_[thread].blocking.end(),
                     [](const HostCall* a, const HostCall* b) { return a->end_ns < b->end_ns; });
    for (size_t i = 0; i < kBusyKinds.size(); ++i) {
      threads_[thread].busy[i] = united(std::move(busy[thread][i]));
    }
  }
}

// The GPU ran dry at `dry_ns`.  If the thread was in a call of the allocator then, as in cudaFree,
// which waits for the GPU, that is why nothing was queued, until it waits for something else.
void Attribution::note_owed(int64_t dry_ns, const HostCall* last_wait, Thread& thread) const {
  const HostCall* const call = last_begun(thread.calls[1], dry_ns);
  if (call != nullptr && call->end_ns >= dry_ns) {
    thread.owed = {call, dry_ns - std::max(call->start_ns, late_until_ns_)};
  }
  if (thread.owed.call != nullptr && last_wait != nullptr &&
      last_wait->end_ns > thread.owed.call->end_ns) {
    thread.owed = {};
  }
}

// The last of these, which are by end, that returned by the end of `late`.
const HostCall* last_returned(const std::vector<const HostCall*>& blocking, const Span& late) {
  const auto after =
      std::upper_bound(blocking.begin(), blocking.end(), late.end_ns,
                       [](int64_t time, const HostCall* call) { return time < call->end_ns; });
  return after == blocking.begin() ? nullptr : *(after - 1);
}

// The same of those that had been entered when it began: what is entered while the GPU has nothing
// to do finds the queue empty.
const HostCall* last_entered_before(const std::vector<const HostCall*>& blocking,
                                    const Span& late) {
  auto after =
      std::upper_bound(blocking.begin(), blocking.end(), late.end_ns,
                       [](int64_t time, const HostCall* call) { return time < call->end_ns; });
  while (after != blocking.begin() && (*(after - 1))->start_ns > late.begin_ns) {
    --after;
  }
  return after == blocking.begin() ? nullptr : *(after - 1);
}

// The queue is empty from the return of the call that waited until it was; one that is entered
// later answers for what comes from there on, unless both are one wait, as in a copy to the host.
Attribution::Waits Attribution::waits_in(const Span& late, const HostCall& launch) {
  Thread& thread = threads_[launch.thread];
  const HostCall* last = last_returned(thread.blocking, late);
  const HostCall* first = last_entered_before(thread.blocking, late);
  note_owed(late.begin_ns, first, thread);
  if (last == nullptr || last->end_ns < late.begin_ns || launch.kind == HostCallKind::kBlocking) {
    return {};
  }
  if (last->start_ns <= late.begin_ns) {
    return {last, last};
  }
  if (first != nullptr && first->end_ns >= late.begin_ns) {
    return {last->start_ns - first->end_ns < kNoLeadNs ? last : first, last};
  }
  const bool is_allocators =
      thread.owed.call != nullptr && thread.owed.call->end_ns >= late.begin_ns;
  return is_allocators ? Waits{} : Waits{last, last};
}

// The loader comes first: a copy that blocks right after it must not take the blame.  Time before
// the return of a blocking call and after it are the same loss, for the queue was empty.  But a
// call that blocks by itself is no refill: what it launches comes when the host calls it.
void Attribution::add_late_host(const Span& late, const HostCall& launch) {
  const auto [first, last] = waits_in(late, launch);
  // Without a GPU timeline nothing else is known of the host: only while it was blocked could it
  // have done what it did afterwards.  If it never was, it found the queue empty.
  int64_t most_induced = timeline_.by_host && last != nullptr
                             ? waited_with(threads_[launch.thread], *last)
                             : std::numeric_limits<int64_t>::max();
  for (Span part = late; part.begin_ns < late.end_ns; part = {part.end_ns, late.end_ns}) {
    part.end_ns = cut_short(part.begin_ns, late.end_ns);
    const bool is_first = first != last && part.begin_ns < last->start_ns;
    if (is_first) {
      part.end_ns = std::min(part.end_ns, last->start_ns);
    }
    most_induced -= add_late_part(part, launch, is_first ? first : last, most_induced);
  }
  late_until_ns_ = late.end_ns;
}

// `returned`: the call that waited for the GPU and returned in the gap; null: none.  How much of
// the part it answers for.
int64_t Attribution::add_late_part(const Span& part, const HostCall& launch,
                                   const HostCall* returned, int64_t most_induced_ns) {
  Thread& thread = threads_[launch.thread];
  const Spans loading = within(thread.busy[0], part);
  int64_t left = part.end_ns - part.begin_ns - length_ns(loading);
  add(IdleCause::kDataStarvation, length_ns(loading), last_begun(thread.calls[0], part.end_ns));
  if (returned != nullptr) {
    const int64_t induced = std::min(left, most_induced_ns);
    add(IdleCause::kSyncInduced, induced, returned);
    // Launches alone have no stacks: then the line to begin at is where the host last waited.
    add(IdleCause::kHostBound, left - induced, timeline_.by_host ? returned : &launch,
        spent_in(thread, part));
    return induced;
  }
  Spans explained = loading;
  for (size_t i = 1; i < kBusyKinds.size(); ++i) {
    const int64_t before = length_ns(explained);
    explained = united(explained, within(thread.busy[i], part));
    add(kBusyCauses[i], length_ns(explained) - before, last_begun(thread.calls[i], part.end_ns));
    left -= length_ns(explained) - before;
  }
  if (launch.kind != HostCallKind::kBlocking) {
    const int64_t owed = std::min(left, thread.owed.ns);
    add(IdleCause::kAllocator, owed, thread.owed.call);
    thread.owed.ns -= owed;
    left -= owed;
  }
  add(IdleCause::kHostBound, left, &launch, spent_in(thread, part));
  return 0;
}

void Attribution::note_own_times() {
  std::vector<int64_t> until(threads_.size(), std::numeric_limits<int64_t>::min());
  for (size_t i = 0; i < timeline_.spent_in.size(); ++i) {
    const HostCall& call = timeline_.calls[i];
    int64_t& since = until[call.thread];
    if (timeline_.spent_in[i] != kNoName && since < call.start_ns) {
      threads_[call.thread].own.push_back({{since, call.start_ns}, timeline_.spent_in[i]});
    }
    since = std::max(since, call.end_ns);
  }
}

// The frame with most of that part between the thread's calls.
uint32_t Attribution::spent_in(const Thread& thread, const Span& part) const {
  auto own =
      std::upper_bound(thread.own.begin(), thread.own.end(), part.begin_ns,
                       [](int64_t time, const OwnTime& each) { return time < each.span.end_ns; });
  std::map<uint32_t, int64_t> times;
  for (; own != thread.own.end() && own->span.begin_ns < part.end_ns; ++own) {
    times[own->spent_in] +=
        std::min(own->span.end_ns, part.end_ns) - std::max(own->span.begin_ns, part.begin_ns);
  }
  const auto most = std::max_element(
      times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == times.end() ? kNoName : most->first;
}

void Attribution::add(IdleCause cause, int64_t ns, const HostCall* call, uint32_t spent_in) {
  while (ns != 0) {
    const int64_t part = cut_short(charged_until_ns_, charged_until_ns_ + ns) - charged_until_ns_;
    visit_({cause, part, call, next_, gap_, charged_until_ns_, spent_in});
    charged_until_ns_ += part;
    ns -= part;
  }
}

void Attribution::add(const Span& gap, const GpuWork& next, const GpuWork& before) {
  next_ = &next;
  gap_ = gap;
  charged_until_ns_ = gap.begin_ns;
  const int64_t length = gap.end_ns - gap.begin_ns;
  const auto found = next.correlation == 0 ? launches_.end() : launches_.find(next.correlation);
  if (found == launches_.end()) {
    return add(IdleCause::kUnattributed, length);
  }
  const HostCall& launch = *found->second;
  if (launch.start_ns > gap.begin_ns) {
    // A launch cannot come after what it launched, but clocks of host and device may say so.
    const int64_t launched = std::min(launch.start_ns, gap.end_ns);
    add_late_host({gap.begin_ns, launched}, launch);
    return add_launched({launched, gap.end_ns}, next, before, launch);
  }
  if (is_graph_launch(launch) && before.correlation == next.correlation) {
    return add(IdleCause::kGraphInternal, length);
  }
  // The call had not let go of it when the GPU had nothing left to do.  One that waits for the GPU
  // does so by itself.
  const int64_t held_ns = launch.kind == HostCallKind::kBlocking ? kLoadingNs : 1;
  if (launch.end_ns - gap.begin_ns >= held_ns) {
    return add_launched(gap, next, before, launch);
  }
  add_device_side(gap, next, before);
}

bool Attribution::is_first_use(const GpuWork& work) const {
  return work.kind != WorkKind::kMemory && first_use_.at(work.name) == work.start_ns;
}

// `gap` begins with the launch of what ends it.
void Attribution::add_launched(const Span& gap, const GpuWork& next, const GpuWork& before,
                               const HostCall& launch) {
  const int64_t returned = std::clamp(launch.end_ns, gap.begin_ns, gap.end_ns);
  const int64_t inside = returned - gap.begin_ns;
  add(inside >= kLoadingNs && is_first_use(next) ? IdleCause::kLazyLoad : IdleCause::kLaunchCall,
      inside, &launch);
  const int64_t begun = std::min(gap.end_ns, returned + kMostLatencyNs);
  add(IdleCause::kLaunchLatency, begun - returned, &launch);
  if (begun < gap.end_ns) {
    add_device_side({begun, gap.end_ns}, next, before);
  }
}

bool is_same(const GpuWork& a, const GpuWork& b) {
  return a.correlation == b.correlation && a.stream == b.stream && a.device == b.device;
}

// All that it waited for is known, or nothing is said.  Where the last of that ended before the gap
// began it is not the reason.
void Attribution::add_device_side(const Span& gap, const GpuWork& next, const GpuWork& before) {
  const int64_t length = gap.end_ns - gap.begin_ns;
  const IdleCause otherwise =
      length < kKernelGapNs ? IdleCause::kKernelGap : IdleCause::kDependency;
  const Predecessor awaited = predecessors_.of(next);
  if (!awaited.known) {
    return add(otherwise, length);
  }
  if (awaited.peers) {
    return add(IdleCause::kCommunicationWait, length);
  }
  if (awaited.work == nullptr ||
      (awaited.work->end_ns <= gap.begin_ns && !is_same(*awaited.work, before))) {
    return add(otherwise, length);
  }
  const int64_t until = std::clamp(awaited.work->end_ns, gap.begin_ns, gap.end_ns);
  add_while_others_ran({gap.begin_ns, until}, *awaited.work, kMostIdleHops);
  // What one GPU tells the other takes its time too.
  switch (awaited.work->kind) {
    case WorkKind::kCommunication:
      return add(IdleCause::kCommunicationWait, gap.end_ns - until);
    case WorkKind::kMemory:
      return add(IdleCause::kCopyWait, gap.end_ns - until);
    default:
      return add(gap.end_ns - until < kKernelGapNs ? IdleCause::kKernelGap : otherwise,
                 gap.end_ns - until);
  }
}

// Of a gap, up to the end of `awaited`, which runs on another GPU: before it began, it waited for
// something itself.
void Attribution::add_while_others_ran(Span part, const GpuWork& awaited, int hops) {
  const int64_t began = std::clamp(awaited.start_ns, part.begin_ns, part.end_ns);
  if (began > part.begin_ns) {
    const Predecessor earlier = predecessors_.of(awaited);
    int64_t known = part.begin_ns;
    if (hops > 0 && earlier.known && !earlier.peers && earlier.work != nullptr) {
      known = std::clamp(earlier.work->end_ns, part.begin_ns, began);
      add_while_others_ran({part.begin_ns, known}, *earlier.work, hops - 1);
    }
    add(earlier.peers ? IdleCause::kCommunicationWait : IdleCause::kDependency, began - known);
    part.begin_ns = began;
  }
  const int64_t left = part.end_ns - part.begin_ns;
  switch (awaited.kind) {
    case WorkKind::kCommunication:
      return add_communication(part, awaited);
    case WorkKind::kMemory:
      return add(IdleCause::kCopyWait, left);
    default:
      return add(IdleCause::kDependency, left);
  }
}

// Until the last rank came to it, that one is the reason.
void Attribution::add_communication(const Span& part, const GpuWork& work) {
  const CollectiveNote* const note = collective_note(timeline_, work.correlation);
  const int64_t came = note == nullptr || note->last_came_ns == 0
                           ? part.begin_ns
                           : std::clamp(note->last_came_ns, part.begin_ns, part.end_ns);
  add(IdleCause::kStragglerWait, came - part.begin_ns);
  add(IdleCause::kCommunicationWait, part.end_ns - came);
}

}  // namespace

bool is_hosts(IdleCause cause) {
  return cause <= IdleCause::kLaunchLatency && cause != IdleCause::kHostPeerWait;
}

bool is_launch(IdleCause cause) {
  return cause >= IdleCause::kHostBound && cause <= IdleCause::kLaunchLatency;
}

void visit_idle(const Timeline& timeline, std::span<const GpuWork> work,
                const std::function<void(const IdleCharge&)>& visit,
                std::span<const int64_t> cuts) {
  if (work.empty()) {
    return;
  }
  Attribution attribution(timeline, visit, cuts);
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

std::vector<IdleTimes> idle_by_cause(const Timeline& timeline, std::span<const GpuWork> work,
                                     std::span<const int64_t> starts) {
  std::vector<IdleTimes> times(starts.size());
  visit_idle(
      timeline, work,
      [&](const IdleCharge& charge) {
        const auto after = std::upper_bound(starts.begin(), starts.end(), charge.begin_ns);
        if (after != starts.begin()) {
          times[static_cast<size_t>(after - starts.begin() - 1)]
               [static_cast<size_t>(charge.cause)] += charge.ns;
        }
      },
      starts);
  return times;
}

}  // namespace traintrace
