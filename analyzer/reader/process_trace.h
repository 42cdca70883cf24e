// One process as it was recorded: plain data, whatever it was read from (a live or dead native
// trace, the text that `traintrace dump` prints, another tool's file).  Times are ns since the
// epoch; ticks exist only inside the reader.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/result.h"
#include "analyzer/reader/thread_now.h"
#include "format/trace_format.h"

namespace traintrace {

using TimeNs = int64_t;  // since the epoch; 0: not known or not yet

struct FieldSchema {
  std::string name;
  std::string format;  // fields.def; unknown ones are printed as hex
  bool after_call = false;
};

struct CallSchema {
  std::string name;     // cudaMalloc
  std::string library;  // runtime, driver, nccl
  std::string kind;     // kinds.def: alloc, collective, ..
  std::vector<FieldSchema> fields;
};

struct PythonFrameText {
  std::string function;
  std::string file;
  int line = 0;  // 0: not known
};

struct StackText {
  std::vector<PythonFrameText> python;  // innermost first
  std::vector<uint64_t> native;         // return addresses, innermost first
};

struct ModuleText {
  uint64_t begin = 0, end = 0, bias = 0;
  std::string build_id;  // lower-case hex
  std::string path;
};

// An enter record and what became of it.
struct CallRecord {
  uint32_t thread = 0;  // ThreadText::serial
  uint32_t call = 0;    // index in ProcessTrace::calls
  uint32_t stack = 0;   // key in ProcessTrace::stacks, 0: none
  int32_t result = 0;
  TimeNs enter = 0;
  TimeNs leave = 0;     // 0: never returned as far as recorded
  uint64_t caller = 0;  // return address
  uint8_t device = format::kNoDevice;
  bool returned = false;
  bool moment = false;       // no call: a report without duration; device is the one that is meant
  bool enter_lost = false;   // only the leave record was left in the ring
  bool leave_lost = false;   // records are missing after it: whether it returned is not known
  uint8_t value_count = 0;   // as many as the call's schema has fields
  uint32_t first_value = 0;  // in ProcessTrace::values
};

// What a range or a mark of NVTX is called.
struct RangeNameText {
  std::string domain;  // empty: the default one
  std::string name;
};

// A range that was pushed and not popped, or the step that a thread is in, or its newest note of a
// key.
struct OpenRangeText {
  TimeNs began = 0;
  uint32_t range = 0;  // key in ProcessTrace::ranges; 0: its name is `name`, maybe cut
  std::string name;
  std::string sort;  // "step", "note"; empty: a range
};

struct ThreadText {
  uint32_t serial = 0;
  int tid = 0;
  std::string name;
  TimeNs started = 0, ended = 0;
  uint64_t events = 0, dropped = 0;
  struct Open {
    TimeNs enter = 0;  // 0: no call open
    uint32_t call = 0;
    uint32_t stack = 0;
  } open[2];  // CUDA, NCCL
  TimeNs last_call_time = 0, last_query_time = 0;
  uint64_t queries = 0;  // since the last record of another sort, that are none
  uint64_t folded = 0;   // all that are no records
  std::optional<uint32_t> last_call;
  uint32_t last_stack = 0;
  uint32_t group_depth = 0;
  uint32_t group_stack = 0;           // of the outermost ncclGroupStart, while a group is open
  std::vector<OpenRangeText> ranges;  // outermost first
  uint32_t deeper_ranges = 0;         // further ones, within these
};

// How far the GPU is with an operation, where it said so itself (marks, NCCL's profiler).
enum class GpuState : uint8_t {
  kUnknown,   // not followed: no evidence for anything
  kEnqueued,  // its stream has not come to it
  kReached,   // its stream has, and has not got past it
  kFinished,
  kPending,  // not finished; whether its stream has come to it is not known
  kAborted,  // never read: what the model makes of an abort
};

// What its framework calls an operation, where the name that NCCL knows says less.
enum class CalledAs : uint8_t {
  kItself,
  kBarrier,  // PyTorch's: an all-reduce of one element
};

struct OperationText {
  uint64_t index = 0;     // n-th operation of the communicator in this process, from 0
  uint64_t sequence = 0;  // format::Operation::sequence
  uint32_t call = 0;
  uint32_t stack = 0;
  TimeNs enter = 0, leave = 0;
  TimeNs completed = 0;  // when it was seen to be complete, on the GPU; 0: not said
  uint64_t count = 0;
  int data_type = -1, reduction = -1, peer = -1;  // vendors' numbers
  uint8_t flags = 0;                              // format::OperationFlag
  uint32_t group = 0;                             // format::Operation::group
  uint32_t stream = 0;                            // index in streams + 1
  uint64_t position = 0;
  GpuState gpu = GpuState::kUnknown;  // after an abort: as it was when the abort was entered
  bool collective = true, receive = false;
  CalledAs as = CalledAs::kItself;
};

struct CommunicatorText {
  uint64_t id = 0, parent = 0, nccl_hash = 0, handle = 0;
  format::CommunicatorOrigin origin = format::kUnknownOrigin;
  int size = -1, rank = -1, device = -1, color = 0, key = 0;
  uint32_t ordinal = 0, flags = 0;
  int async_error = 0;
  TimeNs created = 0, ready = 0, ended = 0, last = 0;
  TimeNs errored = 0;  // when `async_error` was first known
  uint32_t created_stack = 0, ended_stack = 0;
  std::string name;
  std::string members;  // global ranks by rank in it, "0,1,2"; empty: the source does not say them
  uint64_t collectives = 0, hash = 0, operations = 0, members_hash = 0;
  uint64_t finished = 0;      // collectives up to that number are; 0: not counted
  uint32_t parent_index = 0;  // split, shrink, growth: index in communicators + 1, 0: not known
  std::vector<format::Checkpoint> checkpoints;  // by sequence
  std::vector<OperationText> recent;            // by index; the last ones, never evicted
};

struct StreamText {
  uint64_t handle = 0;
  int device = -1;
  uint32_t flags = 0;
  uint64_t issued = 0, completed = 0;
  TimeNs completed_time = 0, created = 0, destroyed = 0;
  uint32_t stack = 0;
};

// A function that CUDA calls when a stream comes to it.
struct HostFunctionText {
  uint64_t function = 0;  // address
  TimeNs enqueued = 0, entered = 0, left = 0;
  uint64_t position = 0;  // of its stream: what lies further waits for it
  uint32_t stream = 0;    // index in streams + 1
  uint32_t stack = 0, call = 0;
  int tid = 0;  // that entered it
  uint8_t device = format::kNoDevice;
};

struct PeerText {
  uint32_t communicator = 0;  // index in communicators + 1
  bool receive = false;
  int peer = -1;
  uint64_t operations = 0, hash = 0;
  TimeNs last = 0;
};

struct AllocationText {
  uint64_t address = 0, bytes = 0, stream = 0;
  TimeNs time = 0;
  uint32_t stack = 0, call = 0;
  uint8_t device = format::kNoDevice;
};

// A block of PyTorch's caching allocator that is in use.
struct TensorBlockText {
  uint64_t address = 0, bytes = 0;
  TimeNs time = 0;
  uint32_t stack = 0;
  uint8_t device = format::kNoDevice;
};

// A block of PyTorch's that was freed after the last one that is larger than the smallest was
// allocated: what Python let go as the process ended, or as an exception unwound.
struct FreedBlockText {
  uint64_t bytes = 0;
  TimeNs time = 0, freed = 0;
  uint32_t stack = 0;
  uint8_t device = format::kNoDevice;
};

// format::TensorDevice
struct TensorDeviceText {
  int device = -1;
  TimeNs time = 0;
  uint64_t allocated = 0, reserved = 0;
  uint64_t peak_allocated = 0, peak_reserved = 0;
  TimeNs peak_time = 0;
  uint64_t before = 0, allocations = 0, frees = 0;
  int64_t change = 0;
};

// A block that was live when memory ran out.
struct HeldBlockText {
  uint64_t address = 0, bytes = 0;
  uint32_t stack = 0, call = 0;  // a block of PyTorch's: its report
  uint8_t device = format::kNoDevice;
  TimeNs time = 0;  // of its allocation; 0: not told here
};

// format::OutOfMemory
struct OutOfMemoryText {
  uint32_t number = 0;  // of all in this process, from 1
  TimeNs time = 0;
  uint64_t bytes = 0;
  uint64_t allocated = 0, reserved = 0;  // PyTorch's, 0: not known
  uint64_t free = 0, total = 0;          // the device's
  TimeNs asked = 0;                      // when the job asked for these, 0: never
  uint32_t stack = 0, call = 0;
  uint8_t device = format::kNoDevice;
  int32_t result = 0;
  uint32_t not_held = 0;            // live blocks that found no room in `held`
  std::vector<HeldBlockText> held;  // by address; empty: not kept
};

struct LossText {
  std::string stat;  // stats.def
  uint64_t count = 0;
  std::string severity;  // info, warning
};

// A process that is there and cannot run, nor note that it is alive.
enum class Halt : uint8_t {
  kNot,
  kStopped,  // SIGSTOP and its like
  kTraced,   // by a debugger
  kFrozen,   // with its cgroup, as `docker pause` does
};

class StoredReports;

struct ProcessTrace {
  std::string source;  // the file it came from
  std::string host;
  int pid = 0, parent_pid = 0;
  uint64_t start_time = 0;
  TimeNs armed = 0, last_alive = 0, exited = 0;
  format::ExitKind exit_kind = format::kNotExited;
  int exit_status = 0;
  // When the kernel's word that the process had ended was noted beside its trace; 0: it was not.
  TimeNs gone = 0;
  // When the first time limit of its operations in flight is exceeded; 0: the source knows of none.
  TimeNs first_limit = 0;
  int wait_status = -1;  // as wait(2) has it; -1: not known
  std::string boot;      // of which start of which machine this is; empty: not known
  // When that was, by the system's clock as it stood at the first and at the newest heartbeat: they
  // differ if somebody set it in between.  0: not recorded.
  TimeNs booted_at_first = 0, booted = 0;
  // Whether the process (pid, start time, boot) runs on this machine right now; empty: cannot be
  // told from here.
  std::optional<bool> running_now;
  Halt halt = Halt::kNot;
  uint64_t run_key = 0;                      // FileHeader
  std::map<std::string, std::string> facts;  // FactDefinition
  std::vector<CallSchema> calls;
  std::vector<ThreadText> threads;
  std::vector<CommunicatorText> communicators;
  std::vector<PeerText> peers;
  std::vector<StreamText> streams;
  std::vector<HostFunctionText> host_functions;  // by enqueued
  std::vector<AllocationText> allocations;
  std::vector<TensorBlockText> tensor_blocks;    // by time
  std::vector<FreedBlockText> freed_blocks;      // by time
  std::vector<TensorDeviceText> tensor_devices;  // by device
  std::vector<OutOfMemoryText> out_of_memory;    // by number
  std::vector<ModuleText> modules;
  std::map<uint32_t, StackText> stacks;
  // Native return address -> where that is, for those that somebody looked up (symbols/).
  std::map<uint64_t, PythonFrameText> code;
  std::map<uint64_t, std::string> kernels;  // function -> mangled name
  std::map<uint32_t, RangeNameText> ranges;
  std::vector<CallRecord> events;  // by enter time, of all threads; empty if not asked for
  std::vector<uint64_t> values;    // of all events; no allocation per event
  // Reports that are not among `events` (reader/sections/stored_reports.h); null: there are none.
  std::shared_ptr<const StoredReports> stored_reports;
  uint64_t records = 0;  // event records present in the file
  std::vector<LossText> losses;
  std::vector<ReadError> errors;
  TimeNs looked = 0;           // when somebody looked at the process from outside (live/)
  std::vector<ThreadNow> now;  // what was seen then, by tid

  // One per field of the call's schema, `out` ones 0 if it has not returned successfully.
  std::span<const uint64_t> values_of(const CallRecord& event) const {
    return std::span(values).subspan(event.first_value, event.value_count);
  }
};

}  // namespace traintrace
