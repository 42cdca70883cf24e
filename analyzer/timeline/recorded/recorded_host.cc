#include "analyzer/timeline/recorded/recorded_host.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "analyzer/timeline/recorded/recorded_words.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

constexpr std::array kWork = {"launch",           "graph-launch",  "copy",       "set",
                              "memory-operation", "host-function", "collective", "send-recv"};

bool gives_work(const CallSchema& schema) {
  return std::find(kWork.begin(), kWork.end(), schema.kind) != kWork.end();
}

bool is_called(const CallSchema& schema, std::string_view part) {
  return schema.name.find(part) != std::string::npos;
}

// Memory that is not allocated in the order of a stream, which is given back only when the device
// is through with all that may use it.
constexpr std::array<std::string_view, 7> kAllocating = {
    "cudaMalloc",    "cudaMallocPitch", "cudaMalloc3D",      "cuMemAlloc",
    "cuMemAlloc_v2", "cuMemAllocPitch", "cuMemAllocPitch_v2"};
constexpr std::array<std::string_view, 3> kFreeing = {"cudaFree", "cuMemFree", "cuMemFree_v2"};

template <size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& names, const CallSchema& schema) {
  return std::find(names.begin(), names.end(), schema.name) != names.end();
}

}  // namespace

RecordedHost::RecordedHost(const ProcessTrace& trace, TimeNs base_ns)
    : trace_(trace), base_ns_(base_ns) {
  std::set<int> devices;
  for (const CallRecord& event : trace.events) {
    if (!event.moment && gives_work(trace.calls[event.call])) {
      devices.insert(traintrace::device_of(event));
    }
  }
  devices.erase(-1);
  only_device_ = devices.empty() ? 0 : devices.size() == 1 ? *devices.begin() : -1;
  knows_all_memory_ = !is_lost(trace, "ring-overwritten");
  if (knows_all_memory_) {
    return;
  }
  for (const StreamText& stream : trace.streams) {
    progress_.is_unknown(EventWaits::stream_of(stream.handle, stream.device, 0), stream.device);
  }
}

int RecordedHost::device_of(const CallRecord& event) const {
  const int device = traintrace::device_of(event);
  return device < 0 ? only_device_ : device;
}

HostProgress::Stream RecordedHost::stream_of(const CallRecord& event) const {
  const CallSchema& schema = trace_.calls[event.call];
  constexpr uint64_t kOfThread = 2;
  const uint64_t handle = has_field(schema, "stream")      ? value_of(trace_, event, "stream")
                          : schema.name.ends_with("_ptds") ? kOfThread
                                                           : 0;
  return EventWaits::stream_of(handle, device_of(event), event.thread);
}

void RecordedHost::allocated(const CallRecord& event) {
  const CallSchema& schema = trace_.calls[event.call];
  if (event.returned && event.result == 0 && schema.kind == "alloc") {
    const uint64_t address = value_of(trace_, event, "address");
    allocated_on_.erase(address);
    cudas_[address] = std::max(cudas_[address], value_of(trace_, event, "bytes"));
    if (is_one_of(kAllocating, schema)) {
      allocated_on_[address] = device_of(event);
    }
  }
}

// The host has what it copied, so that is done: to pageable memory a copy always waits, as all do
// that are called so.  To other memory the call may return before.
bool RecordedHost::has_copied_to_host(const CallRecord& event) const {
  const CallSchema& schema = trace_.calls[event.call];
  if (!copies_to_host(schema, trace_, event)) {
    return false;
  }
  if (schema.name == "cudaMemcpy" || schema.name == "cuMemcpyDtoH_v2") {
    return true;
  }
  const uint64_t to = value_of(trace_, event, "to");
  return knows_all_memory_ && captures_ == 0 && to != 0 && !is_cudas(to);
}

bool RecordedHost::is_cudas(uint64_t address) const {
  const auto after = cudas_.upper_bound(address);
  return after != cudas_.begin() &&
         address - std::prev(after)->first < std::max<uint64_t>(1, std::prev(after)->second);
}

// The host is in such a call until it has all been read: all of it but what is still under way to
// the device is there when it returns.
bool RecordedHost::copies_from_pageable(const CallRecord& event) const {
  const CallSchema& schema = trace_.calls[event.call];
  if (!event.returned || event.result != 0 || !copies_to_device(schema, trace_, event) ||
      value_of(trace_, event, "bytes") <= kBriefCopyBytes) {
    return false;
  }
  const uint64_t from = value_of(trace_, event, "from");
  return knows_all_memory_ && captures_ == 0 && from != 0 && !is_cudas(from);
}

// A runtime's call and the driver's within it are one copy.
bool RecordedHost::is_in_copy(const CallRecord& event) const {
  return copy_ && copy_->thread == event.thread && event.enter < copy_->until &&
         copied_alone_.contains(copy_->id);
}

// What an idle GPU is given so is all that it has until the call returns, unless another thread
// gives it more.
void RecordedHost::note_copy(const CallRecord& event, Gives gives, uint64_t id) {
  if (gives == Gives::kFirst && copies_from_pageable(event)) {
    copy_ = {id, event.thread, device_of(event), event.leave};
    copied_alone_.emplace(id, event.leave - base_ns_);
  } else if (copy_ && copy_->thread != event.thread && copy_->device == device_of(event) &&
             event.enter < copy_->until) {
    copied_alone_.erase(copy_->id);
  }
}

std::optional<int> RecordedHost::device_of_freed(const CallRecord& event) const {
  if (!is_one_of(kFreeing, trace_.calls[event.call])) {
    return std::nullopt;
  }
  const auto found = allocated_on_.find(value_of(trace_, event, "address"));
  return found == allocated_on_.end() ? std::nullopt : std::optional(found->second);
}

bool RecordedHost::waits(const CallRecord& event) const {
  const CallSchema& schema = trace_.calls[event.call];
  return event.returned && (kind_of(schema) == HostCallKind::kBlocking ||
                            copies_to_host(schema, trace_, event) || device_of_freed(event));
}

// What waits for the GPU, or says that it is through.
void RecordedHost::returned(const CallRecord& event) {
  const CallSchema& schema = trace_.calls[event.call];
  if (!event.returned || event.result != 0) {
    return;
  }
  const TimeNs enter = event.enter - base_ns_;
  const TimeNs leave = std::max(event.leave, event.enter) - base_ns_;
  const bool asks = schema.kind == "sync" || schema.kind == "query";
  if (asks || waits(event)) {
    repeated_.waited(leave);
  }
  if ((asks && has_field(schema, "stream")) || has_copied_to_host(event) ||
      (is_in_copy(event) && copies_from_pageable(event))) {
    progress_.synchronised(stream_of(event), enter, leave);
  } else if (asks && has_field(schema, "event")) {
    progress_.synchronised_event(value_of(trace_, event, "event"), enter, leave);
  } else if (schema.name == "cudaDeviceSynchronize" || schema.name == "cuCtxSynchronize") {
    progress_.synchronised_device(device_of(event), enter, leave);
  } else if (const std::optional<int> device = device_of_freed(event)) {
    progress_.synchronised_device(*device, enter, leave);
    allocated_on_.erase(value_of(trace_, event, "address"));
  }
}

// What such a call gives to the GPU.  What NCCL launches is a part of what was called of it.
HostProgress::Weight RecordedHost::weight_of(const CallRecord& event) const {
  const CallSchema& schema = trace_.calls[event.call];
  const bool is_brief = (schema.kind == "copy" || schema.kind == "set") &&
                        has_field(schema, "bytes") &&
                        value_of(trace_, event, "bytes") <= kBriefCopyBytes;
  const auto in_nccl = in_nccl_.find(event.thread);
  const bool is_nccls = in_nccl != in_nccl_.end() && event.enter < in_nccl->second;
  return is_brief || is_nccls ? HostProgress::Weight::kBrief : HostProgress::Weight::kWork;
}

uint64_t RecordedHost::what_of(const CallRecord& event) const {
  constexpr std::array<std::string_view, 5> kSays = {"function", "grid", "block", "graph_exec",
                                                     "bytes"};
  const std::vector<FieldSchema>& fields = trace_.calls[event.call].fields;
  const auto values = trace_.values_of(event);
  uint64_t what = event.call;
  for (size_t i = 0; i < fields.size() && i < values.size(); ++i) {
    if (std::find(kSays.begin(), kSays.end(), fields[i].name) != kSays.end()) {
      what = format::mixed(what, values[i]);
    }
  }
  return what;
}

RecordedHost::Gives RecordedHost::give(const CallRecord& event, const HostProgress::Stream& stream,
                                       HostProgress::Weight weight, uint64_t id) {
  const CallSchema& schema = trace_.calls[event.call];
  const TimeNs enter = event.enter - base_ns_;
  const TimeNs leave = std::max(event.leave, event.enter) - base_ns_;
  const bool is_first = progress_.enqueued(stream, device_of(event), enter, id, weight);
  if (schema.library == "nccl" || schema.kind == "memory-operation" ||
      schema.kind == "host-function") {
    repeated_.depends_on_others();
  }
  const bool begins =
      repeated_.given(device_of(event), {enter, leave, id, what_of(event)},
                      is_first ? RepeatedWork::Before::kIsIdle : RepeatedWork::Before::kMayBeBusy);
  return is_first ? Gives::kFirst : begins ? Gives::kAfterPause : Gives::kMore;
}

RecordedHost::Gives RecordedHost::called(const CallRecord& event, uint64_t id) {
  const CallSchema& schema = trace_.calls[event.call];
  Gives gives = Gives::kNothing;
  if (gives_work(schema)) {
    const HostProgress::Stream stream = stream_of(event);
    gives = give(event, stream, weight_of(event), id);
    note_copy(event, gives, id);
    if (schema.library == "nccl") {
      in_group_.push_back(stream);
      in_nccl_[event.thread] = event.leave;
    }
  } else if (schema.kind == "group-end") {  // only now it is launched
    for (const HostProgress::Stream& stream : in_group_) {
      // As a part of what was called in it.
      gives = std::max(gives, give(event, stream, HostProgress::Weight::kBrief, id));
    }
    in_group_.clear();
    in_nccl_[event.thread] = event.leave;
  } else if (schema.kind == "group-start") {
    in_group_.clear();
  } else if (is_called(schema, "StreamBeginCapture")) {
    ++captures_;
  } else if (is_called(schema, "StreamEndCapture")) {
    --captures_;
  } else if (schema.kind == "record" && has_field(schema, "event")) {
    // What is captured into a graph orders nothing now.
    const uint64_t recorded = value_of(trace_, event, "event");
    progress_.forget(recorded);
    if (captures_ == 0 && has_field(schema, "stream")) {
      progress_.recorded(recorded, stream_of(event));
    }
  } else if (schema.kind == "wait" && captures_ == 0 && has_field(schema, "event")) {
    progress_.waits_for(stream_of(event), value_of(trace_, event, "event"));
  }
  allocated(event);
  returned(event);
  return gives;
}

bool RecordedHost::entered_collective(const CallRecord& event, uint64_t id) {
  if (trace_.calls[event.call].kind != "collective") {
    return false;
  }
  progress_.mark(stream_of(event), id);
  const TimeNs time = event.enter - base_ns_;
  entries_.push_back({time, time, id, 0, 0, device_of(event), WorkKind::kCommunication});
  return true;
}

void RecordedHost::finish(Timeline& timeline) {
  std::unordered_map<uint64_t, uint32_t> names;  // of calls that launch
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      names.try_emplace(call.correlation, call.name);
    }
  }
  const auto copy_name = static_cast<uint32_t>(timeline.names.size());
  timeline.names.emplace_back(kCopyFromPageable);
  for (const RepeatedWork::Piece& piece : repeated_.pieces(progress_.finish())) {
    const auto name = names.find(piece.launch);
    const auto copy = copied_alone_.find(piece.launch);
    const bool is_copy = copy != copied_alone_.end() && piece.span.end_ns <= copy->second;
    timeline.work.push_back(
        {piece.span.begin_ns, std::max(piece.span.end_ns, piece.span.begin_ns), piece.launch,
         is_copy               ? copy_name
         : name == names.end() ? 0
                               : name->second,
         0, piece.device, is_copy ? WorkKind::kMemory : WorkKind::kCompute, piece.end});
  }
  for (GpuWork& entry : entries_) {
    entry.end_ns =
        std::max(entry.end_ns, progress_.done_ns(entry.correlation).value_or(entry.end_ns));
    entry.end =
        progress_.end_was_seen(entry.correlation) ? EndKnown::kExactly : EndKnown::kAtLatest;
  }
  timeline.entries = std::move(entries_);
  timeline.by_host = true;
}

std::string host_times_refused(const ProcessTrace& trace) {
  const auto calls = trace.facts.find("setting.TRAINTRACE_CALLS");
  if (calls != trace.facts.end() && calls->second != "*") {
    return "not all calls were recorded (TRAINTRACE_CALLS)";
  }
  return is_lost(trace, "no-chunk") ? "calls were not recorded for want of room" : "";
}

}  // namespace traintrace
