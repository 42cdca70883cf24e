#include "interpose/record/recorder.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "interpose/base/inside.h"
#include "interpose/base/undisturbed.h"
#include "interpose/life/arming.h"
#include "interpose/nvtx/early_ranges.h"
#include "interpose/record/clock.h"
#include "interpose/record/definitions.h"
#include "interpose/record/growth.h"
#include "interpose/record/map_memory.h"
#include "interpose/record/sections.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/stack_frames.h"
#include "interpose/tables/state.h"

namespace traintrace {

constinit thread_local ThreadState* t_thread = nullptr;

namespace {

constexpr int kEnding = -1;  // as owner of a thread state: somebody takes it apart
constexpr uint64_t kReapEveryNs = 1'000'000;
constexpr uint32_t kLookAt = 64;  // threads at a time

// A thread that found the table full: in which trace, and its calls since, of which few try again.
constinit thread_local uint64_t t_refused = 0;
constinit thread_local uint32_t t_refused_calls = 0;
constexpr uint32_t kTryAgainEvery = 256;
// A signal handler must not claim a second place for a thread that is about to get one.
constinit thread_local bool t_claiming = false;

struct Recorder {
  uint64_t generation;
  format::FileHeader* file;
  format::Thread* slots;
  ThreadState* states;
  NativeMemo* native_memos;
  CodeMemo* code_memos;
  StackFrames* stack_frames;
  int32_t* owners;  // tid, 0: free
  int thread_count;
  char* chunks;
  uint64_t chunk_bytes;
  uint64_t chunk_count;
  const uint64_t* ready_bytes;  // of the chunks
  format::ChunkState* chunk_states;
  uint32_t next_serial;
  uint32_t next_look;     // of reap_some
  uint64_t all_alive_ns;  // when that was seen last
};
Recorder g_recorder;

format::EventChunk* chunk_at(uint64_t index) {
  return reinterpret_cast<format::EventChunk*>(g_recorder.chunks + index * g_recorder.chunk_bytes);
}

uint64_t index_of(const format::EventChunk* chunk) {
  return static_cast<uint64_t>(reinterpret_cast<const char*>(chunk) - g_recorder.chunks) /
         g_recorder.chunk_bytes;
}

void release_chunk(ThreadState& thread) {
  if (thread.chunk) {
    const uint64_t index = index_of(thread.chunk);
    format::ChunkState& chunk = g_recorder.chunk_states[index];
    chunk.records = static_cast<uint32_t>(thread.events - thread.chunk->first_event);
    __atomic_store_n(&chunk.state, thread.chunk->ordinal * 2, __ATOMIC_RELEASE);
    thread.chunk = nullptr;
  }
}

uint64_t chunks_there() {
  return __atomic_load_n(g_recorder.ready_bytes, __ATOMIC_ACQUIRE) / g_recorder.chunk_bytes;
}

// How many chunks can be used.  Growth is asked for early; a thread that is faster than that helps
// itself, rather than overwrite records of a ring that is to become larger.
uint64_t ready_chunks(uint64_t ordinal) {
  const uint64_t chunks = chunks_there();
  if (chunks == g_recorder.chunk_count || ordinal <= chunks / 2) [[likely]] {
    return chunks;
  }
  ask_for_growth(kGrowRing);
  if (ordinal < chunks || growth_is_refused(kGrowRing)) {
    return chunks;
  }
  grow_to(format::kEvents, std::min(ordinal + 1, g_recorder.chunk_count) * g_recorder.chunk_bytes);
  return chunks_there();
}

// The oldest chunk that nobody writes, or null.  A thread that was put aside for a whole lap finds
// a younger chunk in its place and leaves it alone.
format::EventChunk* take_chunk(uint64_t& ordinal) {
  for (uint64_t tries = 0; tries < g_recorder.chunk_count; ++tries) {
    ordinal = __atomic_fetch_add(&g_recorder.file->next_ordinal, 1, __ATOMIC_RELAXED);
    const uint64_t index = ordinal % ready_chunks(ordinal);
    format::ChunkState& chunk = g_recorder.chunk_states[index];
    uint64_t state = __atomic_load_n(&chunk.state, __ATOMIC_RELAXED);
    const bool older_and_idle = state % 2 == 0 && state / 2 < ordinal;
    if (older_and_idle && __atomic_compare_exchange_n(&chunk.state, &state, ordinal * 2 + 1, false,
                                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      const uint64_t kept = __atomic_exchange_n(&chunk.kept, ordinal * 2, __ATOMIC_RELAXED);
      if (chunk.records && kept != state + 1) {
        count(format::Stat::RingOverwritten, chunk.records);  // until the writer says otherwise
      }
      return chunk_at(index);
    }
  }
  return nullptr;
}

// A reader that sees the same ordinal before and after copying has a whole chunk.
void begin_chunk(ThreadState& thread, format::EventChunk* chunk, uint64_t ordinal) {
  __atomic_store_n(&chunk->ordinal, 0, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  chunk->committed = 0;
  chunk->thread = thread.slot->serial;
  chunk->tid = thread.tid;
  chunk->first_event = thread.events;
  __atomic_store_n(&chunk->ordinal, ordinal, __ATOMIC_RELEASE);
  thread.chunk = chunk;
  thread.next = reinterpret_cast<uint64_t*>(chunk + 1);
  thread.end =
      reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(chunk) + g_recorder.chunk_bytes) -
      kLeaveReserveWords;
}

void write_drop_note(ThreadState& thread) {
  uint64_t* const word = thread.next;
  write_head(word, {format::kDropped, 3, format::kNote, format::kNoDevice, 0}, clock_ticks());
  word[2] = thread.unnoted_drops;
  thread.unnoted_drops = 0;
  commit_record(thread, word + 3);
}

bool is_gone(int32_t tid) {
  const int saved = errno;
  const bool gone = tgkill(getpid(), tid, 0) != 0 && errno == ESRCH;
  errno = saved;
  return gone;
}

void end_thread(int index, int32_t tid) {
  if (!__atomic_compare_exchange_n(&g_recorder.owners[index], &tid, kEnding, false,
                                   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    return;
  }
  ThreadState& thread = g_recorder.states[index];
  release_chunk(thread);
  release_definitions(thread);
  __atomic_store_n(&g_recorder.slots[index].ended_ticks, clock_ticks(), __ATOMIC_RELEASE);
  thread.generation = 0;
  __atomic_store_n(&g_recorder.owners[index], 0, __ATOMIC_RELEASE);
}

// A place that was never used, else the one whose thread ended longest ago.  -1: all are alive.
int find_place(int32_t tid) {
  int oldest = -1;
  for (int i = 0; i < g_recorder.thread_count; ++i) {
    const int32_t owner = __atomic_load_n(&g_recorder.owners[i], __ATOMIC_RELAXED);
    if (owner == tid) {
      end_thread(i, tid);  // of a thread that is gone: the kernel gave us its number
    } else if (owner != 0) {
      continue;
    }
    if (g_recorder.slots[i].serial == 0) {
      return i;
    }
    if (oldest < 0 || g_recorder.slots[i].ended_ticks < g_recorder.slots[oldest].ended_ticks) {
      oldest = i;
    }
  }
  return oldest;
}

// `serial` is stored last: it says that the element is in use.
void begin_slot(format::Thread& slot, int32_t tid) {
  __atomic_store_n(&slot.serial, 0, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  const uint32_t serial = __atomic_add_fetch(&g_recorder.next_serial, 1, __ATOMIC_RELAXED);
  __builtin_memset(&slot.tid, 0, sizeof slot - sizeof slot.serial);
  slot.tid = tid;
  slot.started_ticks = clock_ticks();
  slot.last_call = kNoCall;
  __atomic_store_n(&slot.serial, serial, __ATOMIC_RELEASE);
}

ThreadState* begin_thread(int index, int32_t tid) {
  ThreadState& thread = g_recorder.states[index];
  thread = {};
  thread.slot = &g_recorder.slots[index];
  thread.tid = tid;
  thread.native_memo = &g_recorder.native_memos[index];
  thread.native_memo->clear();
  thread.code_memo = &g_recorder.code_memos[index];
  thread.frames = &g_recorder.stack_frames[index];
  thread.device = format::kNoDevice;
  // A forked child has the device that its parent's thread chose.
  thread.device_chosen = g_recorder.generation > 1;
  begin_slot(*thread.slot, tid);
  thread.generation = g_recorder.generation;
  t_thread = &thread;
  return &thread;
}

bool end_if_gone(int index) {
  const int32_t tid = __atomic_load_n(&g_recorder.owners[index], __ATOMIC_RELAXED);
  const bool gone = tid > 0 && is_gone(tid);
  if (gone) {
    end_thread(index, tid);
  }
  return gone;
}

// Where threads come and go fast, most places belong to threads that are gone; where all are
// alive, looking at each of them every time would cost.
bool reap_some() {
  bool any = false;
  const auto threads = static_cast<uint32_t>(g_recorder.thread_count);
  const uint32_t first = __atomic_fetch_add(&g_recorder.next_look, kLookAt, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < kLookAt; ++i) {
    any = end_if_gone(static_cast<int>((first + i) % threads)) || any;
  }
  return any;
}

// Threads that are gone hold chunks until they are noticed.  Where all are alive that is found out
// now and then only, not at each call.
format::EventChunk* take_chunk_of_the_gone(uint64_t& ordinal) {
  const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
  if (now_ns - __atomic_load_n(&g_recorder.all_alive_ns, __ATOMIC_RELAXED) < kReapEveryNs) {
    return nullptr;
  }
  const Undisturbed undisturbed;  // of whom it takes apart nobody else may
  const int looks = g_recorder.thread_count / static_cast<int>(kLookAt);
  bool any = false;
  for (int i = 0; i < looks; ++i) {
    any = reap_some() || any;
    if (format::EventChunk* const chunk = any ? take_chunk(ordinal) : nullptr) {
      return chunk;
    }
  }
  if (!any) {
    __atomic_store_n(&g_recorder.all_alive_ns, now_ns, __ATOMIC_RELAXED);
  }
  return take_chunk(ordinal);  // another thread may have looked at the same time
}

// All private memory of the recorder in one mapping.
template <class T>
T* carve(char*& from, uint64_t elements) {
  T* const result = reinterpret_cast<T*>(from);
  from += (elements * sizeof(T) + 63) / 64 * 64;
  return result;
}

// Address space only, until threads use it; where the system counts that as memory, for fewer
// threads.
bool map_threads() {
  constexpr int kFewest = 64;
  for (; g_recorder.thread_count >= kFewest; g_recorder.thread_count /= 2) {
    const auto threads = static_cast<uint64_t>(g_recorder.thread_count);
    const uint64_t bytes = threads * (sizeof(ThreadState) + sizeof(NativeMemo) + sizeof(CodeMemo) +
                                      sizeof(StackFrames) + sizeof(int32_t)) +
                           4096;
    if (char* from = static_cast<char*>(map_sparse(bytes))) {
      g_recorder.states = carve<ThreadState>(from, threads);
      g_recorder.native_memos = carve<NativeMemo>(from, threads);
      g_recorder.code_memos = carve<CodeMemo>(from, threads);
      g_recorder.stack_frames = carve<StackFrames>(from, threads);
      g_recorder.owners = carve<int32_t>(from, threads);
      return true;
    }
  }
  return false;
}

}  // namespace

// A thread that is led out of here for good takes a chunk along, no more.
bool next_chunk(ThreadState& thread) noexcept {
  uint64_t ordinal = 0;
  format::EventChunk* chunk = take_chunk(ordinal);
  if (!chunk) {
    chunk = take_chunk_of_the_gone(ordinal);
  }
  if (!chunk) {
    return false;  // and keeps the old one, where open calls have room for their leave records
  }
  release_chunk(thread);
  begin_chunk(thread, chunk, ordinal);
  if (thread.unnoted_drops) {
    write_drop_note(thread);
  }
  return true;
}

void recount_records(ThreadState& thread) noexcept {
  if (thread.chunk == nullptr) {
    return;
  }
  auto* const first = reinterpret_cast<uint64_t*>(thread.chunk + 1);
  thread.next = first + thread.chunk->committed / sizeof *first;
  thread.events = thread.chunk->first_event;
  format::RecordHead head;
  for (const uint64_t* word = first; word < thread.next; word += head.words) {
    __builtin_memcpy(&head, word, sizeof head);
    ++thread.events;
  }
  __atomic_store_n(&thread.slot->events, thread.events, __ATOMIC_RELAXED);
}

void drop_call(ThreadState& thread) noexcept {
  ++thread.unnoted_drops;
  ++thread.slot->dropped;
  count(format::Stat::NoChunk);
}

ThreadState* claim_thread() noexcept {
  const Undisturbed undisturbed;
  const int32_t tid = gettid();
  ThreadState* thread = nullptr;
  t_claiming = true;
  for (bool full = false; !thread && !full;) {
    int index = find_place(tid);
    if (index < 0) {
      reap_some();
      index = find_place(tid);
    }
    int32_t nobody = 0;
    full = index < 0;
    if (!full && __atomic_compare_exchange_n(&g_recorder.owners[index], &nobody, tid, false,
                                             __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
      thread = begin_thread(index, tid);
    }
  }
  t_claiming = false;
  return thread;
}

void reap_threads() noexcept {
  for (int i = 0; i < g_recorder.thread_count; ++i) {
    end_if_gone(i);
  }
}

static void record_what_was_early(ThreadState& thread) noexcept {
  InsideMark mark;
  if (has_early_ranges() && enter_tracer_if_free(thread, mark)) [[unlikely]] {
    record_early_ranges(thread);
    leave_tracer(thread);
  }
}

ThreadState* thread_to_record_slow(bool arms) noexcept {
  if (!armed_generation() && !(arms && arm())) {
    return nullptr;
  }
  if (t_thread && t_thread->generation == armed_generation()) {
    record_what_was_early(*t_thread);  // it has armed
    return t_thread;
  }
  if (t_claiming) {
    count(format::Stat::NestedInSignal);
    return nullptr;
  }
  const bool refused = t_refused == armed_generation();
  if (refused && ++t_refused_calls % kTryAgainEvery) {
    return nullptr;
  }
  ThreadState* const thread = claim_thread();
  if (!thread && !refused) {
    t_refused = armed_generation();
    count(format::Stat::ThreadsFull);
  }
  if (thread) {
    record_what_was_early(*thread);
  }
  return thread;
}

bool recorder_start(format::FileHeader* file, uint64_t generation) noexcept {
  const format::Section& slots = section_of(file, format::kThreads);
  const format::Section& events = section_of(file, format::kEvents);
  g_recorder = {};
  g_recorder.generation = generation;
  g_recorder.file = file;
  g_recorder.slots = reinterpret_cast<format::Thread*>(at(file, slots));
  g_recorder.thread_count = static_cast<int>(slots.bytes / sizeof(format::Thread));
  g_recorder.chunks = at(file, events);
  g_recorder.chunk_bytes = events.element_bytes;
  g_recorder.chunk_count = events.bytes / events.element_bytes;
  g_recorder.ready_bytes = &file->ready_bytes[index_of(file, format::kEvents)];
  g_recorder.chunk_states =
      reinterpret_cast<format::ChunkState*>(at(file, section_of(file, format::kChunkStates)));
  if (!map_threads()) {
    return false;
  }
  file->next_ordinal = 1;
  return true;
}

}  // namespace traintrace
