#include "analyzer/importers/kineto/kineto_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "analyzer/importers/kineto/decimal_ns.h"
#include "analyzer/importers/kineto/large_tables.h"
#include "analyzer/timeline/collectives/noted_messages.h"
#include "analyzer/timeline/exposed_copies.h"
#include "analyzer/timeline/rank_evidence.h"

namespace traintrace::kineto {
namespace {

constexpr int64_t kMostDeviceNumber = std::numeric_limits<int16_t>::max();
// Of one process.  Each is compared with all calls of the process.
constexpr size_t kMostDevicesOfOne = 128;
constexpr int64_t kMostDurationNs = 100'000'000'000'000'000;

}  // namespace

uint32_t Import::id_of(std::string_view name, Ids& ids, std::vector<std::string>& names) {
  if (const auto known = ids.find(name); known != ids.end()) {
    return known->second;
  }
  const auto id = static_cast<uint32_t>(names.size());
  ids.emplace(name, id);
  names.emplace_back(name);
  return id;
}

std::optional<Span> Import::span_of(const Event& event) {
  const std::optional<int64_t> start = ns_of_microseconds(event.time);
  const std::optional<int64_t> duration =
      event.duration.empty() ? 0 : ns_of_microseconds(event.duration);
  if (!start || !duration || *duration < 0 || *duration > kMostDurationNs) {
    ++without_time_;
    return std::nullopt;
  }
  return Span{*start, *start + *duration};
}

void Import::add(const Event& event) {
  if (const std::optional<WorkKind> work = kind_of(event)) {
    add_work(event, *work);
  } else if (is_call(event.category)) {
    add_call(event, kind_of_call(event));
    waits_.add_call(event);
  } else if (event.category == "cuda_sync") {
    waits_.add(event);
  } else if (is_profiling(event)) {
    if (const std::optional<Span> span = span_of(event)) {
      trace_.timeline.profiling.push_back(*span);
    }
  } else if (is_range(event.category)) {
    if (const std::optional<HostCallKind> kind = kind_of_range(event)) {
      add_call(event, *kind);
    } else if (event.name.starts_with("ProfilerStep#")) {
      if (const std::optional<Span> span = span_of(event)) {
        trace_.timeline.step_starts.push_back(span->begin_ns);
      }
    } else if (event.category == "python_function" && is_user_frame(event.name)) {
      add_frame(event);
    } else {
      add_range(event);
    }
  }
}

void Import::add_range(const Event& event) {
  const RangeKind kind = range_kind(event);
  const std::optional<Span> span = kind == RangeKind::kNone ? std::nullopt : span_of(event);
  if (!span) {
    return;
  }
  const uint32_t thread = thread_of(event);
  const uint32_t name = id_of(event.name, names_, trace_.timeline.names);
  if (kind == RangeKind::kOperator) {
    operators_.add(event, name, *span, thread, trace_.timeline);
  } else {
    (kind == RangeKind::kModule ? modules_ : annotations_).add(thread, *span, name);
  }
}

void Import::add_frame(const Event& event) {
  if (const std::optional<Span> span = span_of(event)) {
    frames_.add(thread_of(event), *span, id_of(event.name, names_, trace_.timeline.names));
  }
}

void Import::add_note(const Event& event) {
  if (event.operation.empty() || !event.correlation) {
    return;
  }
  CollectiveNote note{*event.correlation};
  note.operation = id_of(event.operation, names_, trace_.timeline.names);
  if (!event.group.empty()) {
    note.group = id_of(event.group, names_, trace_.timeline.names);
  }
  if (!event.members.empty()) {
    note.members = id_of(event.members, names_, trace_.timeline.names);
  }
  constexpr int64_t kMostRanks = 1 << 24;
  note.group_size =
      static_cast<int32_t>(std::clamp<int64_t>(event.group_size.value_or(-1), -1, kMostRanks));
  note.sequence = event.sequence.value_or(-1);
  if (is_send(event.operation) || is_receive(event.operation)) {
    const std::optional<int64_t> peer = is_send(event.operation) ? event.to_rank : event.from_rank;
    note.peer = static_cast<int32_t>(std::clamp<int64_t>(peer.value_or(-1), -1, kMostRanks));
  }
  const int64_t size = bytes_of_type(event.data_type);
  const int64_t elements = event.elements.value_or(-1);
  if (size != 0 && elements >= 0 && elements <= std::numeric_limits<int64_t>::max() / size) {
    note.bytes = elements * size;
  }
  trace_.timeline.collectives.push_back(note);
}

// Never 0 where both are known.
uint16_t shape_of(const Event& event) {
  const size_t grid = std::hash<std::string_view>()(event.grid);
  const size_t block = std::hash<std::string_view>()(event.block);
  const bool known = !event.grid.empty() && !event.block.empty();
  return known ? static_cast<uint16_t>((grid * 31 + block) % 65535 + 1) : uint16_t{0};
}

void Import::add_work(const Event& event, WorkKind kind) {
  const std::optional<Span> span = span_of(event);
  if (!span) {
    return;
  }
  const int64_t device = event.device.value_or(number_of<int64_t>(event.pid).value_or(-1));
  if (!devices_.contains(device) && devices_.size() == kMostDevicesOfOne) {
    ++on_other_devices_;
    return;
  }
  devices_.insert(device);
  const int64_t stream = event.stream.value_or(number_of<int64_t>(event.tid).value_or(-1));
  const uint32_t name = id_of(event.name, names_, trace_.timeline.names);
  // PyTorch hands on to a kernel what the operator around its launch says of a collective.
  if (kind == WorkKind::kCompute && (communicates(name) || !event.operation.empty())) {
    kind = WorkKind::kCommunication;
  }
  trace_.timeline.work.push_back({span->begin_ns, span->end_ns, event.correlation.value_or(0), name,
                                  static_cast<int32_t>(stream), static_cast<int32_t>(device), kind,
                                  EndKnown::kExactly, shape_of(event)});
  if (event.correlation) {
    add_told_waits(event.waits, *event.correlation, trace_.timeline);
    add_told_messages(event.messages, *event.correlation, trace_.timeline);
  }
  if (kind == WorkKind::kCommunication) {
    add_note(event);
  } else if (!event.product.empty() && event.correlation) {
    operators_.add_told(event.product, *event.correlation, trace_.timeline);
  }
}

void Import::add_call(const Event& event, HostCallKind kind) {
  const std::optional<Span> span = span_of(event);
  if (!span) {
    return;
  }
  const bool launches = is_call(event.category);
  trace_.timeline.calls.push_back(
      {span->begin_ns, span->end_ns, launches ? event.correlation.value_or(0) : 0,
       id_of(event.name, names_, trace_.timeline.names), thread_of(event), kind,
       static_cast<int16_t>(
           std::clamp<int64_t>(event.device.value_or(-1), -1, kMostDeviceNumber))});
}

// cudaMemcpyAsync and the like block where the host's side is pageable, which only the name of the
// GPU's side of it says.
void Import::find_blocking_copies() {
  std::unordered_set<uint64_t> pageable;
  for (const GpuWork& work : trace_.timeline.work) {
    if (work.correlation != 0 && work.kind == WorkKind::kMemory &&
        is_pageable_copy(trace_.timeline.names[work.name])) {
      pageable.insert(work.correlation);
    }
  }
  for (HostCall& call : trace_.timeline.calls) {
    if (call.kind == HostCallKind::kOther && pageable.contains(call.correlation)) {
      call.kind = HostCallKind::kBlocking;
    }
  }
}

// The innermost of the user's frames around each call, and the one in which its thread was for most
// of the time before.
void Import::find_sites() {
  if (frames_.empty()) {
    return;  // no call has a site
  }
  frames_.sort();
  trace_.timeline.spent_in = spent_in(frames_, trace_.timeline.calls);
  visit_innermost(frames_, trace_.timeline.calls, [](HostCall& call, const Range* frame) {
    call.site = frame == nullptr ? kNoName : frame->what;
  });
  frames_ = {};
}

// Of each kind the innermost range around each call.
void Import::find_contexts() {
  Timeline& timeline = trace_.timeline;
  const auto find = [&](Ranges& ranges, uint32_t CallContext::*member) {
    if (ranges.empty()) {
      return;
    }
    timeline.contexts.resize(timeline.calls.size());
    visit_innermost(ranges, timeline.calls, [&](const HostCall& call, const Range* range) {
      if (range != nullptr) {
        timeline.contexts[static_cast<size_t>(&call - timeline.calls.data())].*member = range->what;
      }
    });
    ranges = {};
  };
  annotations_.sort();
  modules_.sort();
  operators_.sort();  // which takes room for a while: before the contexts do
  find(annotations_, &CallContext::annotation);
  find(modules_, &CallContext::module);
  operators_.find_contexts(timeline);
}

// What operators that move data between ranks launch themselves is communication, whatever its
// name.
void Import::find_communication() {
  Timeline& timeline = trace_.timeline;
  std::vector<bool> moves_data;
  for (const std::string& name : timeline.names) {
    moves_data.push_back(is_communication_operator(name));
  }
  std::unordered_set<uint64_t> launched;
  for (size_t i = 0; i < timeline.contexts.size(); ++i) {
    const uint32_t op = timeline.contexts[i].op;
    if (op != kNoName && moves_data[op] && timeline.calls[i].correlation != 0) {
      launched.insert(timeline.calls[i].correlation);
    }
  }
  for (GpuWork& work : timeline.work) {
    if (work.kind == WorkKind::kCompute && launched.contains(work.correlation)) {
      work.kind = WorkKind::kCommunication;
    }
  }
}

void Import::finish_own() {
  parser_ = simdjson::ondemand::parser();
  sort_by_start(trace_.timeline.work);
  sort_by_start(trace_.timeline.calls);
  std::sort(trace_.timeline.step_starts.begin(), trace_.timeline.step_starts.end());
  std::stable_sort(trace_.timeline.collectives.begin(), trace_.timeline.collectives.end(),
                   [](const CollectiveNote& a, const CollectiveNote& b) {
                     return a.correlation < b.correlation;
                   });
  std::sort(trace_.timeline.waits.begin(), trace_.timeline.waits.end());
  std::stable_sort(
      trace_.timeline.messages.begin(), trace_.timeline.messages.end(),
      [](const PeerMessage& a, const PeerMessage& b) { return a.correlation < b.correlation; });
  waits_.finish(trace_.timeline);
  find_blocking_copies();
  find_sites();
  find_contexts();
  find_communication();
  operators_.find_products(trace_.timeline);
  take_rank_of_name(trace_.timeline);
  add_noted_messages(trace_.timeline);
  if (first_no_json_) {
    if (no_json_ > 1) {
      first_no_json_->message +=
          fmt::format("; left out for that: {} of {} events", no_json_, no_json_ + trace_.events);
    }
    trace_.errors.push_back(*first_no_json_);
  }
  if (on_other_devices_ != 0) {
    complain(0,
             fmt::format("expected the work of at most {} GPUs: {} events on others are left out",
                         kMostDevicesOfOne, on_other_devices_));
  }
  if (without_time_ != 0) {
    complain(0, fmt::format("{} event{} no usable time", without_time_,
                            without_time_ == 1 ? " has" : "s have"));
  }
}

}  // namespace traintrace::kineto
