// What the wrapper body tells the tables that are never evicted.  Everything here is called on the
// hot path of the job: no allocation, no lock, no system call, no call into CUDA or NCCL, and
// nothing is ever reported back as an error - what does not fit is counted (stats.def).
//
// `thread` is the calling thread; handles are the vendors' pointers as numbers.
#pragma once

#include <cstdint>

#include "format/schema.h"
#include "interpose/record/thread.h"
#include "interpose/stacks/native_frames.h"

namespace traintrace {

// Allocations.  `address` and `bytes` as known after success; `stream` 0 if not stream-ordered.
void allocated(ThreadState& thread, format::CallId call, uint64_t address, uint64_t bytes,
               uint64_t stream, uint32_t stack, uint64_t ticks) noexcept;
// At entry of the free: an address may be handed out again before it has returned.  `call` tells
// what was freed: an address range that is reserved, what is mapped there, a handle of memory.
void freed(ThreadState& thread, format::CallId call, uint64_t address) noexcept;
// All that was allocated in a range (cuMemUnmap takes several mappings at once).
void freed_range(ThreadState& thread, format::CallId call, uint64_t address,
                 uint64_t bytes) noexcept;

// NCCL operations.
struct OperationArguments {
  format::CallId call;
  bool collective;  // else send or receive
  bool receive;
  uint64_t communicator;
  uint64_t count;     // elements
  int32_t data_type;  // -1: none
  int32_t reduction;  // -1: none
  int32_t peer;       // root or peer, -1: none
  uint64_t stream;
  uint32_t stack;
  uint64_t ticks;
  uint64_t source;  // addresses, 0: none
  uint64_t destination;
};
struct OperationRef {
  uint32_t communicator;  // index in kCommunicators + 1, 0: unknown
  uint64_t sequence;      // 0 with it
  format::Operation* operation;
};
OperationRef operation_entered(ThreadState& thread, const OperationArguments& arguments) noexcept;
void operation_left(ThreadState& thread, const OperationRef& ref, int result,
                    uint64_t ticks) noexcept;
void group_started(ThreadState& thread, uint32_t stack = 0) noexcept;        // after success
void group_ending(ThreadState& thread) noexcept;                             // before the call
void group_ended(ThreadState& thread, int result, uint64_t ticks) noexcept;  // after the call

// Communicator life.  `entered` runs before the real call, so that an initialisation that hangs is
// in the table; it returns the element's index + 1, which `ready` gets back.
struct CommunicatorArguments {
  format::CommunicatorOrigin origin;
  const void* unique_id;  // 128 bytes, kInitRank only
  uint64_t parent;        // handle, split and shrink
  int32_t size;           // -1: not known yet
  int32_t rank;
  int32_t color;
  int32_t key;
  const int* excluded;  // shrink
  int32_t excluded_count;
  int32_t init_all_index;  // kInitAll: 0.. within one call; all members of a call share `ticks`
  int32_t device;          // -1: the thread's
  bool non_blocking;  // a split or shrink of a non-blocking communicator is taken for one anyway
  const char* name;   // may be null
  uint32_t stack;
  uint64_t ticks;
};
uint32_t communicator_entered(ThreadState& thread, const CommunicatorArguments& arguments) noexcept;
// After the call.  `result` 0 or ncclInProgress (7): `handle` is valid; else the element is marked
// failed.  A split that gave no communicator has handle 0.
void communicator_ready(ThreadState& thread, uint32_t element, uint64_t handle, int result,
                        uint64_t ticks) noexcept;
// After a split or shrink that has not stored its communicator yet, because a group is open or the
// communicator does not block: `where` (ncclComm_t*) is read at the outermost GroupEnd, or when the
// parent's ncclCommGetAsyncError says that all is done, as NCCL itself writes it until then.
void communicator_deferred(ThreadState& thread, uint32_t element, const void* where) noexcept;
// A shrink that aborts (NCCL_SHRINK_ABORT) is a kRevoke of its parent.
enum class CommunicatorEnd { kFinalize, kDestroy, kAbort, kRevoke };
void communicator_ending(ThreadState& thread, uint64_t handle, CommunicatorEnd how, uint32_t stack,
                         uint64_t ticks) noexcept;  // at entry
void communicator_ended(ThreadState& thread, uint64_t handle, CommunicatorEnd how,
                        int result) noexcept;  // after the call
// What a successful ncclCommGetAsyncError reported; 0: the communicator is idle and well.
void communicator_error(ThreadState& thread, uint64_t handle, int async_error,
                        uint64_t ticks) noexcept;
uint32_t communicator_number(uint64_t handle) noexcept;  // index + 1, 0: unknown

// Streams, events, and what can be concluded from them (level `observe`).  `stream` as the call
// meant it: 0 and 1 are the legacy default stream, 2 is the thread's own (0 of a _ptsz or _ptds).
void stream_created(ThreadState& thread, uint64_t stream, uint32_t stack, uint64_t ticks) noexcept;
void stream_destroyed(ThreadState& thread, uint64_t stream, uint64_t ticks) noexcept;  // at entry
// The event's earlier place is forgotten at entry (an event in the hands of two threads must not be
// believed to be where it was or will be); its new one is known after success, with entry's mark.
uint64_t event_recording(ThreadState& thread, uint64_t event, uint64_t stream) noexcept;
void event_recorded(uint64_t event, uint64_t mark) noexcept;
void event_destroyed(uint64_t event) noexcept;
void stream_waits(ThreadState& thread, uint64_t stream, uint64_t event) noexcept;  // after success
// Synchronise and query: take the mark before the real call, hand it back after its success.
uint64_t stream_mark(ThreadState& thread, uint64_t stream) noexcept;
// Whether what is put on the stream of that mark goes into a graph.
constexpr bool is_capture_mark(uint64_t mark) noexcept {
  return mark >> 63 != 0;
}
uint64_t event_mark(uint64_t event) noexcept;
void mark_completed(uint64_t mark, uint64_t ticks) noexcept;
// All streams of the thread's device.
void device_completed(ThreadState& thread, uint64_t entered_ticks, uint64_t ticks) noexcept;
void capture_began(ThreadState& thread, uint64_t stream) noexcept;  // after success
// After the call; with graph 0 if it failed, since the capture is over then too.
void capture_ended(ThreadState& thread, uint64_t stream, uint64_t graph) noexcept;
// After success; an update of `exec` from another graph too.
void graph_instantiated(ThreadState& thread, uint64_t exec, uint64_t graph) noexcept;
void graph_launched(ThreadState& thread, uint64_t exec, uint64_t stream, uint64_t entered_ticks,
                    uint64_t ticks) noexcept;   // after success
void graph_destroyed(uint64_t graph) noexcept;  // at entry
void graph_exec_destroyed(uint64_t exec) noexcept;

// Names of kernels: remembered at registration (before arming too), defined at the first launch.
// `name` of a registration lies in the module and is read at the launch; else it is copied at once.
void kernel_registered(uint64_t function, const char* name) noexcept;
void kernel_named(ThreadState& thread, uint64_t function, const char* name) noexcept;
void kernel_launched(ThreadState& thread, uint64_t function) noexcept;

// The id of the calling thread's stack: Python frames, then native ones (the wrapper's callers).
// 0: stacks are off, or there is no room.
uint32_t current_stack(ThreadState& thread, WalkStart start) noexcept;

// Start and reset, called by arming.cc with the mapped file.
void state_start(format::FileHeader* file) noexcept;
void state_reset_after_fork() noexcept;
// By the tracer's own thread, each second: modules that were loaded since, threads' names.
void state_tick(ThreadState& own) noexcept;
// When the process ends.
void state_exit() noexcept;

}  // namespace traintrace
