// What the tracer keeps for each thread of the job.  Lives in memory of our own (never malloc);
// thread-local storage holds one pointer to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/trace_format.h"
#include "interpose/stacks/code_memo.h"
#include "interpose/stacks/native_memo.h"
#include "interpose/tables/polls.h"

namespace traintrace {

// The first two as OpenCall's order; runtime and driver are one, and so are cuBLAS and cuBLASLt.
enum class Layer : uint8_t { kCuda, kNccl, kBlas };
inline constexpr int kLayers = 3;

inline constexpr int kMaxGroupedOperations = 1024;

struct OpenFrame;    // open_call.h
struct StackFrames;  // stack_frames.h

inline constexpr uint16_t kNoCall = 0xffff;

// Scalars on their way to the host that the thread has not waited for (scalars.h).
struct PendingScalars {
  static constexpr uint32_t kMost = 8;  // further ones are not read
  struct Copy {
    uint64_t address;
    uint64_t stream;
    uint32_t stack;
    uint32_t bytes;
  };
  uint64_t ticks;  // entry of the newest copy
  uint32_t count;
  Copy copies[kMost];
};

struct ThreadState {
  uint64_t generation;        // of the trace file: another one after fork.  0: not in use
  format::Thread* slot;       // in the file
  format::EventChunk* chunk;  // being written, null: none
  uint64_t* next;             // in it
  uint64_t* end;              // for enter records: leave records of open calls always find room
  uint64_t events;
  uint64_t unnoted_drops;  // calls dropped since the last kDropped note
  format::DefinitionChunk* definitions;
  char* definitions_next;
  char* definitions_end;
  NativeMemo* native_memo;
  CodeMemo* code_memo;
  StackFrames* frames;  // of the call that is under way
  int32_t tid;
  uint8_t device;      // format::kNoDevice: not known
  bool device_chosen;  // by a call or a context, known or not
  // Of cuCtxPushCurrent; the newest few, by count.
  static constexpr int kMaxPushedDevices = 8;
  uint8_t pushed_devices[kMaxPushedDevices];
  uint32_t pushed_count;
  uint32_t watched;            // host_samples.cc; 0: not yet
  format::OpenRanges* ranges;  // ranges.cc; null: none was pushed yet
  bool ranges_refused;         // there is no memory for them
  int32_t unseen_pushes;       // of a signal handler that interrupted the tracer
  // The tracer is at work for the thread: that word, on its stack, holds its own address scrambled.
  // A signal handler's calls pass through meanwhile.  Null: it is not.
  const uint64_t* inside;
  // The call that is open in each layer, on the wrapper's stack.
  const OpenFrame* open_frame[kLayers];
  Polls polls;
  PendingScalars scalars;
  // Operations between GroupStart and the outermost GroupEnd, to be given their place on the
  // stream.
  uint32_t group_depth;
  uint32_t grouped_count;
  uint16_t group;  // format::Operation::group
  format::Operation* grouped[kMaxGroupedOperations];
};

// Room for a definition of `bytes` (head included, padded by this function), or null (counted).
// Nothing is visible until it is committed.  Only the calling thread may write to it.
void* begin_definition(ThreadState& thread, format::DefinitionKind kind, size_t bytes) noexcept;
void commit_definition(ThreadState& thread, void* definition) noexcept;

}  // namespace traintrace
