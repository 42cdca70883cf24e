#include "analyzer/timeline/recorded/recorded_streams.h"

#include "analyzer/timeline/recorded/recorded_words.h"

namespace traintrace {
namespace {

constexpr uint64_t kNonBlocking = 1;  // cudaStreamNonBlocking

bool name_has(const CallSchema& schema, std::string_view part) {
  return schema.name.find(part) != std::string::npos;
}

}  // namespace

// Copies and sets without one are on a default stream.
EventWaits::Stream RecordedStreams::stream_of(const CallRecord& event) const {
  const CallSchema& schema = trace_.calls[event.call];
  constexpr uint64_t kOfThread = 2;
  const uint64_t handle = has_field(schema, "stream")      ? value_of(trace_, event, "stream")
                          : schema.name.ends_with("_ptds") ? kOfThread
                                                           : 0;
  return EventWaits::stream_of(handle, device_of(event), event.thread);
}

void RecordedStreams::note_legacy(const CallRecord& event) {
  const CallSchema& schema = trace_.calls[event.call];
  const TimeNs time = event.enter - base_ns_;
  const uint64_t stream = value_of(trace_, event, "stream");
  if (schema.kind == "create" && event.returned && event.result == 0) {
    legacy_.created(stream, time, (value_of(trace_, event, "flags") & kNonBlocking) != 0);
  } else if (schema.kind == "wait" || schema.kind == "memory-operation" ||
             schema.kind == "host-function") {
    legacy_.told_to_wait(stream, time);
  }
}

// Semaphores of other programs interfaces have no event; contexts have no stream.
void RecordedStreams::note_wait(const CallRecord& event) {
  const CallSchema& schema = trace_.calls[event.call];
  if (!has_field(schema, "stream")) {
    waits_.all_wait_for_unknown();
  } else if (has_field(schema, "event")) {
    waits_.waits_for(stream_of(event), value_of(trace_, event, "event"));
  } else if (name_has(schema, "Wait")) {
    waits_.waits_for_other(stream_of(event), WorkWait::kUnknown);
  }
}

void RecordedStreams::called(const CallRecord& event, bool in_nccl) {
  const CallSchema& schema = trace_.calls[event.call];
  const bool has_stream = has_field(schema, "stream");
  if (has_stream && schema.kind != "graph-launch") {
    note_legacy(event);
  }
  if (event.returned && event.result != 0) {
    return;
  }
  if (schema.kind == "create" && event.returned) {
    if (has_stream) {
      const bool is_blocking = (value_of(trace_, event, "flags") & kNonBlocking) == 0;
      waits_.created(stream_of(event), is_blocking, device_of(event));
    } else if (name_has(schema, "EventCreate")) {
      waits_.event_created(value_of(trace_, event, "event"));
    } else if (name_has(schema, "OpenEventHandle")) {
      waits_.recorded_elsewhere(value_of(trace_, event, "event"));
    }
  } else if (schema.kind == "record" && has_stream) {
    waits_.recorded(value_of(trace_, event, "event"), stream_of(event));
  } else if (schema.kind == "record") {
    waits_.recorded_elsewhere(value_of(trace_, event, "event"));
  } else if (schema.kind == "wait") {
    note_wait(event);
  } else if (schema.kind == "host-function") {
    waits_.waits_for_other(stream_of(event), WorkWait::kUnknown);
  } else if (schema.kind == "memory-operation" && !name_has(schema, "Write")) {
    waits_.waits_for_other(stream_of(event), in_nccl ? WorkWait::kPeers : WorkWait::kUnknown);
  } else if (name_has(schema, "StreamBeginCapture")) {
    waits_.capture_begins(stream_of(event));
  } else if (name_has(schema, "StreamEndCapture")) {
    waits_.capture_ends(stream_of(event));
  }
}

// A graph has streams of its own.  A runtime's call may have a correlation beside that of the
// driver's within it, and what it launched has only one of them.
void RecordedStreams::launched(const CallRecord& event, uint64_t correlation) {
  const CallSchema& schema = trace_.calls[event.call];
  const bool is_graph = schema.kind == "graph-launch";
  const bool has_stream = has_field(schema, "stream");
  if (has_stream && !is_graph) {
    legacy_.launched(correlation, value_of(trace_, event, "stream"), event.enter - base_ns_);
  }
  if (!with_work_.contains(correlation)) {
    return;
  }
  if (has_stream || schema.kind == "copy" || schema.kind == "set") {
    waits_.launched(stream_of(event), correlation, is_graph);
  } else {
    waits_.launched_somewhere(correlation);
  }
}

std::vector<uint64_t> RecordedStreams::awaited_by(const CallRecord& event) const {
  const CallSchema& schema = trace_.calls[event.call];
  return schema.kind == "sync" && has_field(schema, "event")
             ? waits_.awaited_by(value_of(trace_, event, "event"))
             : std::vector<uint64_t>();
}

// Of calls that were left out of the recording nothing is known.
void RecordedStreams::finish(Timeline& timeline) {
  const auto calls = trace_.facts.find("setting.TRAINTRACE_CALLS");
  timeline.legacy_waits = legacy_.waits(timeline.work);
  timeline.waits = waits_.take();
  timeline.knows_waits = calls == trace_.facts.end() || calls->second == "*";
}

}  // namespace traintrace
