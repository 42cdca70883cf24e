// Threads, chunks of the ring, and records.  What runs for every call is here, inline; what runs
// once per thread or chunk is in recorder.cc.
#pragma once

#include <cstdint>

#include "format/schema.h"
#include "interpose/base/guard.h"
#include "interpose/record/thread.h"

namespace traintrace {

extern constinit thread_local ThreadState* t_thread;

// The calling thread's state, or null: not armed, or no room for one more thread.  A call of a kind
// that `arms` starts the recording.
ThreadState* thread_to_record_slow(bool arms) noexcept;
inline ThreadState* thread_to_record(bool arms) noexcept {
  ThreadState* const thread = t_thread;
  if (thread && thread->generation == armed_generation()) [[likely]] {
    return thread;
  }
  return thread_to_record_slow(arms);
}

// The leave records of the calls that can be open at once, one per layer, always find room in the
// chunk: an enter record without its leave would look like a hang.
inline constexpr int kMaxOutFields = 4;
inline constexpr int kLeaveReserveWords = kLayers * (2 + kMaxOutFields);

bool next_chunk(ThreadState& thread) noexcept;  // false: there is none
void drop_call(ThreadState& thread) noexcept;   // counts

// Null: no room.
inline uint64_t* room_for(ThreadState& thread, int words) noexcept {
  if (thread.end - thread.next < words) [[unlikely]] {
    if (!next_chunk(thread)) {
      return nullptr;
    }
  }
  return thread.next;
}

inline void commit_record(ThreadState& thread, uint64_t* end) noexcept {
  thread.next = end;
  const auto bytes = reinterpret_cast<char*>(end) - reinterpret_cast<char*>(thread.chunk + 1);
  __atomic_store_n(&thread.chunk->committed, static_cast<uint32_t>(bytes), __ATOMIC_RELEASE);
  __atomic_store_n(&thread.slot->events, ++thread.events, __ATOMIC_RELAXED);
}

inline void write_head(uint64_t* word, format::RecordHead head, uint64_t ticks) noexcept {
  __builtin_memcpy(word, &head, sizeof head);
  word[1] = ticks;
}

// `fields` may be null if `count` is 0.  False: dropped and counted.
inline bool write_enter(ThreadState& thread, format::CallId call, uint64_t ticks, uint64_t caller,
                        uint32_t stack, const uint64_t* fields, int count) noexcept {
  uint64_t* const word = room_for(thread, 3 + count);
  if (!word) [[unlikely]] {
    drop_call(thread);
    return false;
  }
  write_head(word,
             {static_cast<uint16_t>(call), static_cast<uint8_t>((3 + count) & 63), format::kEnter,
              thread.device, stack},
             ticks);
  word[2] = caller;
  for (int i = 0; i < count; ++i) {
    word[3 + i] = fields[i];
  }
  commit_record(thread, word + 3 + count);
  return true;
}

// Only after its enter record.
inline void write_leave(ThreadState& thread, format::CallId call, uint64_t ticks, int result,
                        const uint64_t* fields, int count) noexcept {
  uint64_t* const word = thread.next;
  write_head(word,
             {static_cast<uint16_t>(call), static_cast<uint8_t>((2 + count) & 63), format::kLeave,
              thread.device, static_cast<uint32_t>(result)},
             ticks);
  for (int i = 0; i < count; ++i) {
    word[2 + i] = fields[i];
  }
  commit_record(thread, word + 2 + count);
}

// After the tracer was left in the midst of a record: its counts are again those of the chunk.
void recount_records(ThreadState& thread) noexcept;

// What has no duration.  False: dropped and counted, or TRAINTRACE_CALLS does not want it.
bool write_moment(ThreadState& thread, format::Moment moment, uint64_t ticks, uint8_t device,
                  uint32_t stack, const uint64_t* fields, int count) noexcept;

// Called by arming.cc with the memory laid out, before any thread records; false: no memory.
bool recorder_start(format::FileHeader* file, uint64_t generation) noexcept;
// Gives the calling thread its state in the new trace.
ThreadState* claim_thread() noexcept;
// Ends the threads that are gone: frees their chunks and states.  Some 100 us per 1000 threads.
void reap_threads() noexcept;

}  // namespace traintrace
