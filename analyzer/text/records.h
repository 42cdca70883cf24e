// The keys of each line of docs/dump.md, once: the printer and the parser both walk these lists.
// `keys` is one of theirs; `record` is const for the printer.  The last argument is the value that
// an absent key stands for.
#pragma once

#include "analyzer/reader/process_trace.h"

namespace traintrace::records {

inline constexpr const char* kExitNames[] = {"none", "exit", "fast-exit"};
inline constexpr const char* kOriginNames[] = {"none",   "init-rank", "init-all", "split",
                                               "shrink", "unknown",   "grow"};
// Names of flags by bit.
inline constexpr const char* kCommunicatorFlags[] = {"ready",     "non-blocking", "finalized",
                                                     "destroyed", "aborted",      "async-error",
                                                     "no-color",  "init-failed",  "after-end"};
inline constexpr const char* kOperationFlags[] = {"grouped", "launched",  "captured", "empty",
                                                  "failed",  "untracked", "replayed", "finished"};
inline constexpr const char* kStreamFlags[] = {"destroyed", "capturing", "implicit"};
// By Waiting.
inline constexpr const char* kWaitingNames[] = {
    "unknown", "runs",       "nccl",  "cuda",      "gil",    "data-loader",
    "queue",   "checkpoint", "store", "file",      "socket", "pipe",
    "sleep",   "child",      "lock",  "condition", "thread"};
inline constexpr const char* kCalledAs[] = {"itself", "barrier"};
inline constexpr const char* kGpuStates[] = {"unknown", "enqueued", "reached", "finished",
                                             "pending"};

inline constexpr const char* kHaltNames[] = {"no", "stopped", "traced", "frozen"};

template <class Keys, class Record>
void process_keys(Keys& keys, Record& r) {
  keys.text("host", r.host);
  keys.number("pid", r.pid, 0);
  keys.number("parent", r.parent_pid, 0);
  keys.number("start-time", r.start_time, 0);
  keys.time("armed", r.armed);
  keys.time("alive", r.last_alive);
  keys.choice("exit", r.exit_kind, kExitNames, format::kNotExited);
  keys.number("status", r.exit_status, 0);
  keys.time("exited", r.exited);
  keys.time("gone", r.gone);
  keys.number("wait-status", r.wait_status, -1);
  keys.time("first-limit", r.first_limit);
  keys.text("boot", r.boot);
  keys.time("booted-at-first", r.booted_at_first);
  keys.time("booted", r.booted);
  keys.yes_no("running", r.running_now);
  keys.choice("halt", r.halt, kHaltNames, Halt::kNot);
  keys.time("looked", r.looked);
  keys.number("records", r.records, 0);
  keys.text("source", r.source);
}

template <class Keys, class Record>
void thread_keys(Keys& keys, Record& r) {
  keys.number("tid", r.tid, 0);
  keys.text("name", r.name);
  keys.time("started", r.started);
  keys.time("ended", r.ended);
  keys.number("events", r.events, 0);
  keys.number("dropped", r.dropped, 0);
  keys.call("last", r.last_call);
  keys.time("last-at", r.last_call_time);
  keys.number("queries", r.queries, 0);
  keys.number("folded", r.folded, 0);
  keys.time("last-query", r.last_query_time);
  keys.number("group-depth", r.group_depth, 0);
  keys.number("group-stack", r.group_stack, 0);
  keys.number("deeper-ranges", r.deeper_ranges, 0);
  keys.stack(r.last_stack);
}

template <class Keys, class Record>
void module_keys(Keys& keys, Record& r) {
  keys.hex("bias", r.bias);
  keys.text("build-id", r.build_id);
  keys.text("path", r.path);
}

template <class Keys, class Record>
void open_keys(Keys& keys, Record& r) {
  keys.time("at", r.enter);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void range_name_keys(Keys& keys, Record& r) {
  keys.text("domain", r.domain);
}

template <class Keys, class Record>
void open_range_keys(Keys& keys, Record& r) {
  keys.time("at", r.began);
  keys.number("range", r.range, 0);
  keys.text("name", r.name);
  keys.text("sort", r.sort);
}

template <class Keys, class Record>
void stream_keys(Keys& keys, Record& r) {
  keys.hex("handle", r.handle);
  keys.number("device", r.device, -1);
  keys.flags("flags", r.flags, kStreamFlags);
  keys.number("issued", r.issued, 0);
  keys.number("completed", r.completed, 0);
  keys.time("completed-at", r.completed_time);
  keys.time("created", r.created);
  keys.time("destroyed", r.destroyed);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void host_function_keys(Keys& keys, Record& r) {
  keys.call("call", r.call);
  keys.number("stream", r.stream, 0);
  keys.number("position", r.position, 0);
  keys.number("device", r.device, format::kNoDevice);
  keys.time("enqueued", r.enqueued);
  keys.time("entered", r.entered);
  keys.time("left", r.left);
  keys.number("tid", r.tid, 0);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void communicator_keys(Keys& keys, Record& r) {
  keys.hex("id", r.id);
  keys.text("name", r.name);
  keys.text("ranks", r.members);
  keys.number("size", r.size, -1);
  keys.number("rank", r.rank, -1);
  keys.number("device", r.device, -1);
  keys.choice("origin", r.origin, kOriginNames, format::kUnknownOrigin);
  keys.hex("parent", r.parent);
  keys.number("ordinal", r.ordinal, 0);
  keys.number("color", r.color, 0);
  keys.number("key", r.key, 0);
  keys.hex("handle", r.handle);
  keys.hex("nccl-hash", r.nccl_hash);
  keys.flags("flags", r.flags, kCommunicatorFlags);
  keys.number("async-error", r.async_error, 0);
  keys.time("created", r.created);
  keys.time("ready", r.ready);
  keys.time("ended", r.ended);
  keys.time("last", r.last);
  keys.time("error-at", r.errored);
  keys.number("collectives", r.collectives, 0);
  keys.number("finished", r.finished, 0);
  keys.number("operations", r.operations, 0);
  keys.hex("hash", r.hash);
  keys.hex("members-hash", r.members_hash);
  keys.number("parent-index", r.parent_index, 0);
  keys.number("created-stack", r.created_stack, 0);
  keys.number("ended-stack", r.ended_stack, 0);
}

template <class Keys, class Record>
void operation_keys(Keys& keys, Record& r) {
  keys.number("seq", r.sequence, 0);
  keys.number("count", r.count, 0);
  keys.data_type("type", r.data_type);
  keys.reduction("op", r.reduction);
  keys.number("peer", r.peer, -1);
  keys.time("enter", r.enter);
  keys.time("leave", r.leave);
  keys.time("completed", r.completed);
  keys.number("stream", r.stream, 0);
  keys.number("position", r.position, 0);
  keys.flags("flags", r.flags, kOperationFlags);
  keys.number("group", r.group, 0);
  keys.choice("gpu", r.gpu, kGpuStates, GpuState::kUnknown);
  keys.choice("as", r.as, kCalledAs, CalledAs::kItself);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void peer_keys(Keys& keys, Record& r) {
  keys.number("operations", r.operations, 0);
  keys.hex("hash", r.hash);
  keys.time("last", r.last);
}

template <class Keys, class Record>
void allocation_keys(Keys& keys, Record& r) {
  keys.number("bytes", r.bytes, 0);
  keys.time("at", r.time);
  keys.call("call", r.call);
  keys.hex("stream", r.stream);
  keys.number("device", r.device, format::kNoDevice);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void tensor_block_keys(Keys& keys, Record& r) {
  keys.number("bytes", r.bytes, 0);
  keys.time("at", r.time);
  keys.number("device", r.device, format::kNoDevice);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void freed_block_keys(Keys& keys, Record& r) {
  keys.time("at", r.time);
  keys.time("freed", r.freed);
  keys.number("device", r.device, format::kNoDevice);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void tensor_device_keys(Keys& keys, Record& r) {
  keys.time("at", r.time);
  keys.number("allocated", r.allocated, 0);
  keys.number("reserved", r.reserved, 0);
  keys.number("peak-allocated", r.peak_allocated, 0);
  keys.number("peak-reserved", r.peak_reserved, 0);
  keys.time("peak-at", r.peak_time);
  keys.number("before", r.before, 0);
  keys.number("allocations", r.allocations, 0);
  keys.number("frees", r.frees, 0);
  keys.number("change", r.change, int64_t{0});
}

template <class Keys, class Record>
void out_of_memory_keys(Keys& keys, Record& r) {
  keys.time("at", r.time);
  keys.call("call", r.call);
  keys.number("result", r.result, 0);
  keys.number("bytes", r.bytes, 0);
  keys.number("device", r.device, format::kNoDevice);
  keys.number("allocated", r.allocated, 0);
  keys.number("reserved", r.reserved, 0);
  keys.number("free", r.free, 0);
  keys.number("total", r.total, 0);
  keys.time("asked", r.asked);
  keys.number("not-held", r.not_held, 0);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void held_block_keys(Keys& keys, Record& r) {
  keys.number("bytes", r.bytes, 0);
  keys.call("call", r.call);
  keys.number("device", r.device, format::kNoDevice);
  keys.stack(r.stack);
}

template <class Keys, class Record>
void thread_now_keys(Keys& keys, Record& r) {
  keys.text("name", r.name);
  keys.text("role", r.role);
  keys.letter("state", r.state, 'S');
  keys.choice("waits", r.waiting, kWaitingNames, Waiting::kUnknown);
  keys.text("on", r.waiting_on);
  keys.number("pid", r.pid, 0);
}

template <class Keys, class Record>
void frame_now_keys(Keys& keys, Record& r) {
  keys.text("file", r.file);
  keys.number("line", r.line, 0);
  keys.text("module", r.module);
}

}  // namespace traintrace::records
