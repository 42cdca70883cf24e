// What a story's call leaves behind in events and tables, as the tracer would have left it.
#include <algorithm>

#include "analyzer/text/story.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

uint64_t value_named(const StoryCall& call, std::string_view name, uint64_t absent) {
  const CallSchema& schema = call.draft->trace.calls[call.call];
  for (size_t i = 0; i < schema.fields.size(); ++i) {
    if (schema.fields[i].name == name) {
      return call.values[i];
    }
  }
  return absent;
}

int int_named(const StoryCall& call, std::string_view name) {
  return static_cast<int>(static_cast<int64_t>(value_named(call, name, ~uint64_t{0})));
}

bool is_collective(const CallSchema& schema) {
  return schema.kind == "collective";
}

bool is_operation(const CallSchema& schema) {
  return is_collective(schema) || schema.kind == "send-recv";
}

// The stream of that handle, as its number from 1.
uint32_t stream_number(Draft& draft, uint64_t handle) {
  std::vector<StreamText>& streams = draft.trace.streams;
  const auto found = std::find_if(streams.begin(), streams.end(), [&](const StreamText& stream) {
    return stream.handle == handle;
  });
  const auto number = static_cast<uint32_t>(found - streams.begin()) + 1;
  if (found == streams.end()) {
    StreamText& stream = streams.emplace_back();
    stream.handle = handle;
    stream.device = draft.device();
    stream.flags = handle <= 2 ? uint32_t{format::kImplicit} : 0;  // cudaStreamLegacy, PerThread
  }
  return number;
}

PeerText& peer_entry(Draft& draft, uint32_t communicator, int peer, bool receive) {
  for (PeerText& entry : draft.trace.peers) {
    if (entry.communicator == communicator + 1 && entry.peer == peer && entry.receive == receive) {
      return entry;
    }
  }
  PeerText& entry = draft.trace.peers.emplace_back();
  entry.communicator = communicator + 1;
  entry.peer = peer;
  entry.receive = receive;
  return entry;
}

void launch(ProcessTrace& trace, OperationText& operation, bool completes, TimeNs time) {
  if (operation.stream == 0) {
    operation.flags |= format::kLaunched | (completes ? format::kFinished : 0);
    return;
  }
  StreamText& stream = trace.streams[operation.stream - 1];
  operation.flags |= format::kLaunched;
  operation.position = ++stream.issued;
  if (completes) {
    stream.completed = stream.issued;
    stream.completed_time = time;
  }
}

void put_on_stream(const StoryCall& call, OperationText& operation) {
  operation.stream =
      call.streamless ? 0 : stream_number(*call.draft, value_named(call, "stream", 0));
  if (call.draft->thread(call.thread).group_depth > 0) {
    operation.flags |= format::kGrouped;
    operation.group = call.draft->groups;
  } else if (operation.leave != 0) {
    launch(call.draft->trace, operation, call.outcome == Outcome::kDone, operation.leave);
  }
}

// The outermost ncclGroupEnd has returned.
void launch_group(const StoryCall& call, TimeNs time) {
  ProcessTrace& trace = call.draft->trace;
  for (CommunicatorText& communicator : trace.communicators) {
    for (OperationText& operation : communicator.recent) {
      constexpr uint8_t kOver = format::kLaunched | format::kFailed;
      if (operation.group == call.draft->groups && (operation.flags & kOver) == 0) {
        launch(trace, operation, call.outcome == Outcome::kDone, time);
      }
    }
  }
}

uint64_t count_operation(const StoryCall& call, OperationText& operation) {
  CommunicatorText& communicator = call.draft->trace.communicators[*call.communicator];
  if (!operation.collective) {
    PeerText& peer = peer_entry(*call.draft, *call.communicator, operation.peer, operation.receive);
    peer.hash = format::rolling_peer_hash(peer.hash, operation.count, operation.data_type);
    peer.last = operation.enter;
    return ++peer.operations;
  }
  const std::string& name = call.draft->trace.calls[call.call].name;
  const uint64_t hash = communicator.hash =
      format::rolling_hash(communicator.hash, format::call_name_hash(name.c_str()), operation.count,
                           operation.data_type, operation.reduction, operation.peer);
  const uint64_t sequence = ++communicator.collectives;
  if (sequence % format::kCheckpointEvery == 0) {
    communicator.checkpoints.push_back({sequence, hash});
    if (communicator.checkpoints.size() > format::kCheckpoints) {
      communicator.checkpoints.erase(communicator.checkpoints.begin());
    }
  }
  return sequence;
}

// Returns the operation's sequence.
uint64_t apply_operation(const StoryCall& call, TimeNs enter, TimeNs leave) {
  const CallSchema& schema = call.draft->trace.calls[call.call];
  OperationText operation;
  operation.call = call.call;
  operation.stack = call.stack;
  operation.enter = enter;
  operation.leave = leave;
  operation.count = value_named(call, "count", 0);
  operation.data_type = int_named(call, "type");
  operation.reduction = int_named(call, "op");
  operation.collective = is_collective(schema);
  operation.receive = schema.name.find("Recv") != std::string::npos;
  operation.peer = int_named(call, operation.collective ? "root" : "peer");
  operation.flags = call.grouped ? uint8_t{format::kGrouped} : uint8_t{0};
  operation.group = call.group;
  operation.flags |= call.replayed ? uint8_t{format::kReplayed} : uint8_t{0};
  operation.gpu = call.gpu;
  CommunicatorText& communicator = call.draft->trace.communicators[*call.communicator];
  if (call.captured) {
    operation.flags |= format::kCaptured;
  } else if (call.result != 0) {
    operation.flags |= format::kFailed;
    operation.sequence = communicator.collectives + 1;
  } else {
    operation.flags |= operation.count == 0 ? uint8_t{format::kEmpty} : uint8_t{0};
    put_on_stream(call, operation);
    operation.sequence = count_operation(call, operation);
  }
  operation.index = communicator.operations++;
  communicator.last = enter;
  communicator.recent.push_back(operation);
  if (communicator.recent.size() > format::kRecentOperations) {
    communicator.recent.erase(communicator.recent.begin());
  }
  return operation.sequence;
}

void apply_communicator_end(const StoryCall& call, TimeNs enter) {
  const std::string& name = call.draft->trace.calls[call.call].name;
  CommunicatorText& communicator = call.draft->trace.communicators[*call.communicator];
  if (name == "ncclCommFinalize") {
    communicator.flags |= format::kFinalized;
    return;
  }
  communicator.flags |= name == "ncclCommDestroy" ? format::kDestroyed : format::kAborted;
  communicator.ended = enter;
  communicator.ended_stack = call.stack;
}

void apply_event(const StoryCall& call, TimeNs enter, TimeNs leave, uint64_t sequence) {
  ProcessTrace& trace = call.draft->trace;
  CallRecord& event = trace.events.emplace_back();
  event.thread = call.thread;
  event.call = call.call;
  event.stack = call.stack;
  event.result = leave != 0 ? call.result : 0;
  event.enter = enter;
  event.leave = leave;
  event.returned = leave != 0;
  event.device = call.draft->device();
  event.first_value = static_cast<uint32_t>(trace.values.size());
  event.value_count = static_cast<uint8_t>(call.values.size());
  trace.values.insert(trace.values.end(), call.values.begin(), call.values.end());
  const std::vector<FieldSchema>& fields = trace.calls[call.call].fields;
  for (size_t i = 0; i < fields.size() && sequence != 0; ++i) {
    if (fields[i].name == "seq") {
      trace.values[event.first_value + i] = sequence;
    }
  }
  trace.records += event.returned ? 2 : 1;
}

void apply_thread(const StoryCall& call, TimeNs enter, TimeNs leave) {
  ThreadText& thread = call.draft->thread(call.thread);
  const CallSchema& schema = call.draft->trace.calls[call.call];
  thread.started = thread.started == 0 ? enter : thread.started;
  thread.events += leave != 0 ? 2 : 1;
  thread.last_call = call.call;
  thread.last_call_time = enter;
  thread.queries = 0;
  thread.last_query_time = 0;
  thread.last_stack = call.stack != 0 ? call.stack : thread.last_stack;
  if (leave == 0 && schema.kind == "product") {
    return;  // no open call of a thread: what it waits for is one
  }
  if (leave == 0) {
    thread.open[schema.library == "nccl" ? 1 : 0] = {enter, call.call, call.stack};
  } else if (schema.kind == "group-start") {
    call.draft->groups += ++thread.group_depth == 1 ? 1 : 0;
    thread.group_stack = thread.group_depth == 1 ? call.stack : thread.group_stack;
  } else if (schema.kind == "group-end" && thread.group_depth > 0 && --thread.group_depth == 0) {
    thread.group_stack = 0;
    launch_group(call, leave);
  }
}

}  // namespace

void apply_call(const StoryCall& call, TimeNs time) {
  const CallSchema& schema = call.draft->trace.calls[call.call];
  const TimeNs leave = call.outcome == Outcome::kBlocked ? 0 : time + call.takes_ns;
  uint64_t sequence = 0;
  if (call.communicator && is_operation(schema)) {
    sequence = apply_operation(call, time, leave);
  } else if (call.communicator && schema.kind == "comm-end") {
    apply_communicator_end(call, time);
  }
  apply_thread(call, time, leave);
  apply_event(call, time, leave, sequence);
}

void apply_polling(const StoryCall& call) {
  const TimeNs until = call.until.value_or(call.draft->trace.last_alive);
  ThreadText& thread = call.draft->thread(call.thread);
  // Another call came later: that is what the table tells of.
  if (thread.last_call_time != call.time || until <= call.time) {
    return;
  }
  const auto each_ms = static_cast<uint64_t>((until - call.time) / 1'000'000);
  thread.queries = call.repeats > 1 ? call.repeats - 1 : each_ms;
  thread.last_query_time = until;
  thread.last_call_time = until;
}

}  // namespace traintrace
