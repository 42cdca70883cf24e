#include "analyzer/timeline/recorded/recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <unordered_map>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/open_ranges.h"
#include "analyzer/model/process/range_spans.h"
#include "analyzer/model/process/told_steps.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/run.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/timeline/communication_kernels.h"
#include "analyzer/timeline/recorded/call_sites.h"
#include "analyzer/timeline/recorded/gpu_clock.h"
#include "analyzer/timeline/recorded/recorded_host.h"
#include "analyzer/timeline/recorded/recorded_messages.h"
#include "analyzer/timeline/recorded/recorded_products.h"
#include "analyzer/timeline/recorded/recorded_streams.h"
#include "analyzer/timeline/recorded/recorded_words.h"
#include "analyzer/timeline/recorded/samples.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 48;

class Recorded {
 public:
  Recorded(const ProcessTrace& trace, const JobSizes& sizes, Symbolizer& symbolizer,
           Timeline& timeline, bool by_host)
      : trace_(trace),
        sizes_(sizes),
        timeline_(timeline),
        sites_(trace, symbolizer),
        streams_(trace, trace.armed),
        messages_(trace) {
    timeline_.base_ns = trace.armed;
    if (by_host) {
      host_.emplace(trace, trace.armed);
    }
  }

  void read();

 private:
  struct Thread {
    std::vector<size_t> open;    // indices in events, innermost last
    size_t launched = SIZE_MAX;  // the outermost call that launched last
    size_t wait = SIZE_MAX;      // in Timeline::thread_waits, since it gave a GPU work
    uint32_t number = 0;
  };

  uint32_t name(std::string text) {
    const auto [entry, is_new] =
        names_.try_emplace(std::move(text), static_cast<uint32_t>(timeline_.names.size()));
    if (is_new) {
      timeline_.names.push_back(entry->first);
    }
    return entry->second;
  }
  uint64_t value(const CallRecord& event, std::string_view field) const {
    return value_of(trace_, event, field);
  }
  bool is_profilers_own(const CallRecord& event, const CallSchema& schema) const {
    return schema.kind == "gpu-overhead" && is_of_profiler(value(event, "mode"));
  }
  int64_t number(const CallRecord& event, std::string_view field) const {
    return static_cast<int64_t>(value(event, field));
  }
  void find_clock();
  void find_start();
  void find_work();
  void add_event(size_t index);
  void add_launch(size_t index);
  void add_by_host(Thread& thread);
  void add_wait(Thread& thread);
  void add_call(size_t index, uint64_t correlation, uint32_t stack);
  void add_call(size_t index, uint64_t correlation, uint32_t stack, HostCallKind kind);
  void add_call(HostCall call, uint32_t stack);
  uint32_t stack_of(const Thread& thread) const;
  void add_work(const CallRecord& event);
  void add_note(const CallRecord& event, uint64_t correlation);
  void add_samples();
  void add_steps();
  void add_ranges();
  void sort_calls();
  void sort();

  const ProcessTrace& trace_;
  const JobSizes& sizes_;
  Timeline& timeline_;
  GpuClock clock_;
  TimeNs start_ = 0;  // all that began since then is there
  std::map<std::string, uint32_t> names_;
  std::map<uint32_t, Thread> threads_;
  struct Kernel {
    uint32_t name = 0;
    WorkKind kind = WorkKind::kCompute;
  };
  std::unordered_map<uint64_t, Kernel> kernels_;  // by function
  CallSites sites_;
  std::vector<uint64_t> pageable_;
  std::map<uint32_t, std::vector<HostSample>> samples_;  // by thread
  std::map<uint32_t, std::vector<SampledSpan>> looked_;  // by number of the thread, in order
  RecordedProducts products_;
  RecordedStreams streams_;
  RecordedMessages messages_;
  std::optional<RecordedHost> host_;
};

void Recorded::find_clock() {
  for (const CallRecord& event : trace_.events) {
    if (event.moment && trace_.calls[event.call].kind == "gpu-clock") {
      clock_.add(number(event, "start"), event.enter);
    }
  }
}

void Recorded::find_work() {
  for (const CallRecord& event : trace_.events) {
    if (event.moment && trace_.calls[event.call].kind == "gpu-work") {
      streams_.has_work(value(event, "correlation"));
    }
  }
}

// A thread whose oldest records were overwritten has none before its first that is left.
void Recorded::find_start() {
  if (!is_lost(trace_, "ring-overwritten")) {
    return;
  }
  struct Seen {
    TimeNs first = 0;
    uint64_t records = 0;
  };
  std::map<uint32_t, Seen> seen;
  for (const CallRecord& event : trace_.events) {
    Seen& thread = seen[event.thread];
    thread.first = thread.records == 0 ? event.enter : thread.first;
    thread.records += event.moment || event.enter_lost || !event.returned ? 1 : 2;
  }
  for (const ThreadText& thread : trace_.threads) {
    const auto found = seen.find(thread.serial);
    if (found != seen.end() && found->second.records < thread.events) {
      start_ = std::max(start_, found->second.first);
    }
  }
}

// Of the innermost open call that has one; 0: none has.
uint32_t Recorded::stack_of(const Thread& thread) const {
  for (auto event = thread.open.rbegin(); event != thread.open.rend(); ++event) {
    if (const uint32_t stack = trace_.events[*event].stack; stack != 0) {
      return stack;
    }
  }
  return 0;
}

void Recorded::add_call(HostCall call, uint32_t stack) {
  const std::string& site = sites_.of(stack);
  call.site = site.empty() ? kNoName : name(site);
  timeline_.calls.push_back(call);
  timeline_.call_stacks.push_back(stack);
}

void Recorded::add_call(size_t index, uint64_t correlation, uint32_t stack) {
  add_call(index, correlation, stack, kind_of(trace_.calls[trace_.events[index].call]));
}

void Recorded::add_call(size_t index, uint64_t correlation, uint32_t stack, HostCallKind kind) {
  const CallRecord& event = trace_.events[index];
  const CallSchema& schema = trace_.calls[event.call];
  const TimeNs end = event.returned ? std::max(event.leave, event.enter) : trace_.last_alive;
  add_call({event.enter - timeline_.base_ns, std::max(end, event.enter) - timeline_.base_ns,
            correlation, name(schema.name), threads_[event.thread].number, kind, device_of(event)},
           stack);
}

// A correlation belongs to the innermost call that is open; a runtime's call and the driver's
// within it may have one each, and both are that call's.
void Recorded::add_launch(size_t index) {
  const CallRecord& event = trace_.events[index];
  Thread& thread = threads_[event.thread];
  const uint64_t correlation = value(event, "correlation");
  products_.launched(event.thread, event.enter, correlation);
  if (thread.open.empty() || correlation == 0) {
    return;
  }
  const CallRecord& outer = trace_.events[thread.open.front()];
  const CallRecord& inner = trace_.events[thread.open.back()];
  if (thread.launched != thread.open.front() && waits_for_peers(trace_, outer, inner)) {
    add_call({outer.enter - timeline_.base_ns, inner.enter - timeline_.base_ns, 0,
              name(trace_.calls[outer.call].name), thread.number, HostCallKind::kPeerWait},
             stack_of(thread));
  }
  thread.launched = thread.open.front();
  add_call(thread.open.back(), correlation, stack_of(thread));
  add_note(outer, correlation);
  streams_.launched(inner, correlation);
  messages_.launched(outer, inner, correlation);
}

void Recorded::add_note(const CallRecord& event, uint64_t correlation) {
  const CallSchema& schema = trace_.calls[event.call];
  if (schema.kind != "collective") {
    return;
  }
  CollectiveNote note{correlation};
  note.operation = name(schema.name);
  note.sequence = number(event, "seq");
  const uint64_t size = bytes_of_type(static_cast<int>(value(event, "type")));
  const uint64_t count = value(event, "count");
  if (size != 0 && count <= kMostElements) {
    note.bytes = static_cast<int64_t>(count * size);
  }
  const uint64_t communicator = value(event, "comm");
  if (communicator != 0 && communicator <= trace_.communicators.size()) {
    const CommunicatorText& text = trace_.communicators[communicator - 1];
    note.group = name(text.name.empty() ? fmt::format("{:016x}", text.id) : text.name);
    const auto size = sizes_.communicators.find(text.id);
    note.group_size = size == sizes_.communicators.end() ? text.size : size->second;
    note.members = name(fmt::format("{:016x}", text.id));  // names need not be unique
  }
  timeline_.collectives.push_back(note);
}

void Recorded::add_work(const CallRecord& event) {
  const int64_t theirs = number(event, "start");
  const int64_t duration = number(event, "duration");
  constexpr int64_t kLongest = int64_t{1} << 56;
  if (theirs <= 0 || duration < 0 || duration > kLongest || !clock_.is_known()) {
    return;
  }
  const TimeNs start = clock_.ours(theirs);
  if (start < start_) {
    return;
  }
  const std::string& kind = trace_.calls[event.call].name;
  if (kind == "gpuOverhead") {
    timeline_.profiling.push_back(
        {start - timeline_.base_ns, start - timeline_.base_ns + duration});
    return;
  }
  GpuWork work{};
  work.start_ns = start - timeline_.base_ns;
  work.end_ns = work.start_ns + duration;
  work.correlation = value(event, "correlation");
  work.stream = static_cast<int32_t>(value(event, "gpu_stream") & 0x7fffffff);
  work.device = device_of(event);
  work.kind = WorkKind::kMemory;
  if (kind == "gpuKernel") {
    const uint64_t function = value(event, "function");
    const auto [known, is_new] = kernels_.try_emplace(function);
    if (is_new) {
      const auto found = trace_.kernels.find(function);
      known->second.name = name(found == trace_.kernels.end() ? "" : demangled(found->second));
      known->second.kind = is_communication(timeline_.names[known->second.name])
                               ? WorkKind::kCommunication
                               : WorkKind::kCompute;
    }
    work.name = known->second.name;
    work.shape = shape_of(value(event, "grid"), value(event, "block"));
    work.kind = known->second.kind;
  } else {
    const bool copies = kind == "gpuCopy";
    const uint64_t path = value(event, "path");
    work.name = name(copies ? copy_name(path) : "Memset (Device)");
    if (copies && is_pageable(path)) {
      pageable_.push_back(work.correlation);
    }
  }
  timeline_.work.push_back(work);
}

void Recorded::add_event(size_t index) {
  const CallRecord& event = trace_.events[index];
  const CallSchema& schema = trace_.calls[event.call];
  if (event.moment && (schema.kind == "gpu-work" || is_profilers_own(event, schema))) {
    return add_work(event);
  }
  if (schema.kind == "product") {  // calls within it are what counts
    return products_.called(trace_, event);
  }
  if (event.moment && schema.kind == "host-sample") {
    samples_[static_cast<uint32_t>(value(event, "thread"))].push_back({event.enter, event.stack});
    return;
  }
  const auto [entry, is_new] = threads_.try_emplace(event.thread);
  Thread& thread = entry->second;
  if (is_new) {
    thread.number = static_cast<uint32_t>(timeline_.threads.size());
    timeline_.threads.push_back(std::to_string(event.thread));
  }
  while (!thread.open.empty()) {
    const CallRecord& innermost = trace_.events[thread.open.back()];
    if (innermost.returned ? innermost.leave >= event.enter : !innermost.leave_lost) {
      break;
    }
    thread.open.pop_back();
  }
  if (event.moment) {
    if (schema.kind == "gpu-launch") {
      add_launch(index);
    }
    return;
  }
  const bool in_nccl = !thread.open.empty() &&
                       trace_.calls[trace_.events[thread.open.front()].call].library == "nccl";
  thread.open.push_back(index);
  streams_.called(event, in_nccl);
  for (const uint64_t work : streams_.awaited_by(event)) {
    timeline_.call_waits.push_back({event.enter - timeline_.base_ns, thread.number, work});
  }
  messages_.called(event);
  if (host_) {
    add_by_host(thread);
  }
  const HostCallKind kind = kind_of(schema);
  if (kind != HostCallKind::kOther && thread.open.size() == 1) {
    add_call(index, 0, stack_of(thread));
  }
}

// The call itself counts as the launch of what it is the first to give to an idle GPU.
void Recorded::add_by_host(Thread& thread) {
  const size_t outer = thread.open.front();
  const uint64_t id = outer + 1;
  const bool waits = host_->waits(trace_.events[outer]);
  const RecordedHost::Gives gives = host_->called(trace_.events[thread.open.back()], id);
  const bool enters =
      thread.open.size() == 1 && host_->entered_collective(trace_.events[outer], id);
  if (gives >= RecordedHost::Gives::kAfterPause || enters) {
    add_call(outer, id, stack_of(thread));
  }
  if (enters) {
    add_note(trace_.events[outer], id);
  }
  const bool copied = thread.open.size() == 1 && host_->copied_alone(id);
  if (copied) {
    thread.wait = SIZE_MAX;  // what was waited for before is over
  }
  if ((waits || copied) && thread.open.size() == 1) {
    add_wait(thread);
  } else if (!waits && gives != RecordedHost::Gives::kNothing) {
    thread.wait = SIZE_MAX;
  }
}

void Recorded::add_wait(Thread& thread) {
  const CallRecord& event = trace_.events[thread.open.front()];
  if (thread.wait == SIZE_MAX) {
    thread.wait = timeline_.thread_waits.size();
    timeline_.thread_waits.push_back({thread.number, 0, 0});
  }
  ThreadWait& wait = timeline_.thread_waits[thread.wait];
  const TimeNs leave = std::max(event.leave, event.enter);
  wait.until_ns = std::max(wait.until_ns, static_cast<int64_t>(leave - timeline_.base_ns));
  wait.ns = added_within(wait.ns, elapsed(event.enter, leave));
  if (kind_of(trace_.calls[event.call]) == HostCallKind::kOther) {
    add_call(thread.open.front(), 0, stack_of(thread), HostCallKind::kBlocking);
  }
}

// Time in the loader, in which nothing is called.
void Recorded::add_samples() {
  std::map<uint32_t, std::vector<Span>> calls;
  for (const CallRecord& event : trace_.events) {
    if (!event.moment && samples_.contains(event.thread)) {
      const TimeNs end = event.returned ? std::max(event.leave, event.enter) : trace_.last_alive;
      calls[event.thread].push_back({event.enter, end});
    }
  }
  for (auto& [thread, samples] : samples_) {
    const auto known = threads_.find(thread);
    if (known == threads_.end()) {
      continue;
    }
    for (const SampledSpan& sampled : sampled_spans(samples, std::move(calls[thread]))) {
      const auto stack = trace_.stacks.find(sampled.stack);
      const std::optional<std::string> loader =
          stack == trace_.stacks.end() ? std::nullopt : loader_frame(stack->second);
      if (loader && sampled.span.begin_ns >= start_) {
        add_call(
            {sampled.span.begin_ns - timeline_.base_ns, sampled.span.end_ns - timeline_.base_ns, 0,
             name(*loader), known->second.number, HostCallKind::kLoader},
            sampled.stack);
      }
      if (sampled.span.begin_ns >= start_) {
        looked_[known->second.number].push_back(sampled);
      }
    }
  }
}

// With their stacks.
void Recorded::sort_calls() {
  const std::vector<HostCall> calls = std::move(timeline_.calls);
  const std::vector<uint32_t> stacks = std::move(timeline_.call_stacks);
  std::vector<size_t> order(calls.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return calls[a].start_ns < calls[b].start_ns; });
  timeline_.calls.clear();
  timeline_.call_stacks.clear();
  for (const size_t index : order) {
    timeline_.calls.push_back(calls[index]);
    timeline_.call_stacks.push_back(stacks[index]);
  }
}

void Recorded::sort() {
  const auto by_start = [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; };
  std::stable_sort(timeline_.work.begin(), timeline_.work.end(), by_start);
  std::sort(pageable_.begin(), pageable_.end());
  for (HostCall& call : timeline_.calls) {
    if (call.kind == HostCallKind::kOther && call.correlation != 0 &&
        std::binary_search(pageable_.begin(), pageable_.end(), call.correlation)) {
      call.kind = HostCallKind::kBlocking;
    }
  }
  sort_calls();
  std::stable_sort(timeline_.collectives.begin(), timeline_.collectives.end(),
                   [](const CollectiveNote& a, const CollectiveNote& b) {
                     return a.correlation < b.correlation;
                   });
}

// The one that began before the first records has no whole length.
void Recorded::add_steps() {
  for (const ToldStep& step : told_steps(trace_)) {
    if (step.began >= start_) {
      timeline_.step_starts.push_back(step.began - timeline_.base_ns);
      timeline_.step_numbers.push_back(step.number);
    }
  }
}

// Those that did not end last as long as the process is known to have lived.
void Recorded::add_ranges() {
  for (const RangeSpan& span : range_spans(trace_)) {
    const auto thread = threads_.find(span.thread);
    if (thread != threads_.end() && span.began >= start_) {
      const TimeNs end =
          std::max(span.began, span.ended == RangeSpan::kOpen ? trace_.last_alive : span.ended);
      timeline_.ranges.push_back({span.began - timeline_.base_ns, end - timeline_.base_ns,
                                  name(range_name_text(trace_, span.range)),
                                  thread->second.number});
    }
  }
}

void Recorded::read() {
  find_clock();
  find_start();
  find_work();
  for (size_t i = 0; i < trace_.events.size(); ++i) {
    add_event(i);
  }
  add_samples();
  add_steps();
  add_ranges();
  sort();
  timeline_.spent_in = spent_in(timeline_, looked_, [&](uint32_t stack) {
    const std::string& site = sites_.of(stack);
    return site.empty() ? kNoName : name(site);
  });
  products_.finish(timeline_);
  timeline_.models = recorded_models(trace_);
  streams_.finish(timeline_);
  std::sort(timeline_.call_waits.begin(), timeline_.call_waits.end());
  if (host_) {
    host_->finish(timeline_);
  }
  timeline_.messages = messages_.take(timeline_.work);
}

}  // namespace

bool has_gpu_timeline(const ProcessTrace& trace) {
  const auto fact = trace.facts.find("gpu-timeline");
  return fact != trace.facts.end() && fact->second == "cupti";
}

JobSizes job_sizes(const Run& run) {
  JobSizes sizes;
  sizes.world = run.world_size;
  for (const Communicator& communicator : run.communicators) {
    if (communicator.size >= 0) {
      sizes.communicators.emplace(communicator.id.value, communicator.size);
    }
  }
  return sizes;
}

std::string gpu_timeline_refused(const ProcessTrace& trace) {
  if (is_lost(trace, "gpu-records-lost")) {
    return "CUPTI dropped records of what the GPU did";
  }
  if (is_lost(trace, "no-chunk")) {
    return "calls were not recorded for want of room";
  }
  return "";
}

Timeline recorded_timeline(const ProcessTrace& trace, Rank rank, const JobSizes& sizes,
                           Symbolizer& symbolizer, bool by_host) {
  Timeline timeline;
  timeline.source = trace.source;
  timeline.rank = rank.value;
  timeline.world_size = sizes.world;
  timeline.host = trace.host;
  Recorded(trace, sizes, symbolizer, timeline, by_host).read();
  return timeline;
}

}  // namespace traintrace
