#include "analyzer/timeline/recorded/recorded_host.h"

#include <algorithm>
#include <array>
#include <set>

#include "analyzer/timeline/recorded/recorded_words.h"

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

// The host has what it copied: it is done.  Of other copies the call may return before.
bool copies_to_host(const CallSchema& schema, const ProcessTrace& trace, const CallRecord& event) {
  constexpr uint64_t kToHost = 2;  // cudaMemcpyDeviceToHost
  return schema.name == "cuMemcpyDtoH_v2" ||
         (schema.name == "cudaMemcpy" && value_of(trace, event, "direction") == kToHost);
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
  if (!is_lost(trace, "ring-overwritten")) {
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

// What waits for the GPU, or says that it is through.
void RecordedHost::returned(const CallRecord& event) {
  const CallSchema& schema = trace_.calls[event.call];
  if (!event.returned || event.result != 0) {
    return;
  }
  const TimeNs enter = event.enter - base_ns_;
  const TimeNs leave = std::max(event.leave, event.enter) - base_ns_;
  const bool asks = schema.kind == "sync" || schema.kind == "query";
  if (asks && has_field(schema, "stream")) {
    progress_.synchronised(stream_of(event), enter, leave);
  } else if (asks && has_field(schema, "event")) {
    progress_.synchronised_event(value_of(trace_, event, "event"), enter, leave);
  } else if (schema.name == "cudaDeviceSynchronize" || schema.name == "cuCtxSynchronize") {
    progress_.synchronised_device(device_of(event), enter, leave);
  } else if (copies_to_host(schema, trace_, event)) {
    progress_.synchronised(stream_of(event), enter, leave);
  }
}

bool RecordedHost::called(const CallRecord& event, uint64_t id) {
  const CallSchema& schema = trace_.calls[event.call];
  const TimeNs time = event.enter - base_ns_;
  bool begins = false;
  if (gives_work(schema)) {
    const HostProgress::Stream stream = stream_of(event);
    begins = progress_.enqueued(stream, device_of(event), time, id);
    if (schema.library == "nccl") {
      in_group_.push_back(stream);
    }
  } else if (schema.kind == "group-end") {  // only now it is launched
    for (const HostProgress::Stream& stream : in_group_) {
      begins = progress_.enqueued(stream, device_of(event), time, id) || begins;
    }
    in_group_.clear();
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
  returned(event);
  return begins;
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
  for (const HostProgress::Busy& busy : progress_.finish()) {
    const auto call =
        std::find_if(timeline.calls.begin(), timeline.calls.end(),
                     [&](const HostCall& each) { return each.correlation == busy.launch; });
    const uint32_t name = busy.launch == 0 || call == timeline.calls.end() ? 0 : call->name;
    timeline.work.push_back({busy.begin_ns, std::max(busy.end_ns, busy.begin_ns), busy.launch, name,
                             0, busy.device, WorkKind::kCompute});
  }
  for (GpuWork& entry : entries_) {
    entry.end_ns =
        std::max(entry.end_ns, progress_.done_ns(entry.correlation).value_or(entry.end_ns));
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
