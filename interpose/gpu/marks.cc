#include "interpose/gpu/marks.h"

#include <string.h>

#include "interpose/base/files.h"
#include "interpose/gpu/own_gpu.h"
#include "interpose/record/definitions.h"
#include "interpose/record/stats.h"
#include "interpose/tables/communicators.h"
#include "interpose/tables/streams.h"

namespace traintrace {
namespace {

using format::MarkWords;
using format::Operation;
using format::OperationProgress;

// What the file need not know of a stream.
struct Side {
  int32_t owner;    // tid of the thread that is launching, 0: nobody
  uint32_t closed;  // the last number whose second mark was dealt with
  uint32_t failed;  // the last one that went without it
};

struct Marks {
  bool on;
  MarkDriver driver;
  MarkWords* words;
  int32_t device;
  Side* sides;
  uint8_t* eligible;  // by communicator
};
Marks g_marks;

// The streams of one launch.  A group with more than fit has some operations without marks.
struct Launch {
  struct Stream {
    uint32_t number;
    uint32_t communicator;
    uint32_t launch;  // 0: no marks
    bool shared;
  };
  static constexpr uint32_t kMostStreams = 16;
  Stream streams[kMostStreams];
  uint32_t count;
};

Side& side_of(uint32_t stream) {
  return g_marks.sides[stream - 1];
}
MarkWords& words_of(uint32_t stream) {
  return g_marks.words[stream - 1];
}
uint64_t handle_of(uint32_t stream) {
  return load(g_tables.streams[stream - 1].handle_tag) - 1;
}
OperationProgress& progress_of(const Operation& operation) {
  return g_tables.progress[&operation - g_tables.operations];
}
uint32_t communicator_of(const Operation& operation) {
  const auto index = static_cast<uint64_t>(&operation - g_tables.operations);
  return g_tables.communicators[index / format::kRecentOperations].number;
}

void say_why(ThreadState& thread, uint32_t communicator, const char* why) {
  ShortText key;
  key << "gpu-progress.communicator-" << int64_t{communicator};
  ShortText value;
  value << "observe: " << why;
  define_fact(thread, key.c_str(), value.c_str(), strlen(value.c_str()));
}

// Another thread launches what a communicator that does not block was given, at its own time.
bool may_mark(ThreadState& thread, uint32_t communicator) {
  uint8_t& eligible = g_marks.eligible[index_of_communicator(communicator)];
  if (load(eligible) == 0) {
    return false;
  }
  const uint32_t flags = load(communicator_at(communicator).flags);
  if ((flags & format::kNonBlocking) != 0 && exchange_if(eligible, uint8_t{1}, uint8_t{0})) {
    say_why(thread, communicator, kDoesNotBlock);
  }
  return (flags & (format::kNonBlocking | format::kAborted)) == 0;
}

bool is_on_a_stream(const Operation& operation) {
  constexpr unsigned kNot =
      format::kCaptured | format::kEmpty | format::kFailed | format::kUntracked | format::kReplayed;
  return operation.stream != 0 && (load(operation.flags) & kNot) == 0;
}

void add(Launch& launch, const Operation& operation) {
  const uint32_t communicator = communicator_of(operation);
  for (uint32_t i = 0; i < launch.count; ++i) {
    Launch::Stream& stream = launch.streams[i];
    if (stream.number == operation.stream) {
      stream.shared = stream.shared || stream.communicator != communicator;
      return;
    }
  }
  if (launch.count < Launch::kMostStreams) {
    launch.streams[launch.count++] = {operation.stream, communicator, 0, false};
  }
}

// False: none of it may be marked.  One communicator that does not block hands the whole group to
// another thread.
bool gather(ThreadState& thread, Launch& launch, Operation* const* operations, uint32_t count) {
  launch.count = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Operation& operation = *operations[i];
    if (!may_mark(thread, communicator_of(operation))) {
      return false;
    }
    if (is_on_a_stream(operation)) {
      add(launch, operation);
    }
  }
  return launch.count != 0;
}

void begin_launch(ThreadState& thread, Launch::Stream& stream) {
  Side& side = side_of(stream.number);
  const int32_t owner = load(side.owner);
  const bool free = owner == thread.tid || (owner == 0 && exchange_if(side.owner, 0, thread.tid));
  if (!free) {
    return;
  }
  if (!g_marks.driver.may_write(thread, handle_of(stream.number))) {
    publish(side.owner, 0);
    return;
  }
  uint32_t& launched = words_of(stream.number).launched;
  stream.launch = launched + 1 == 0 ? 1 : launched + 1;
  publish(launched, stream.launch);
}

void end_launch(Side& side, uint32_t launch, bool whole) {
  side.closed = launch;
  side.failed = whole ? side.failed : launch;
}

const Launch::Stream* stream_in(const Launch& launch, uint32_t number) {
  for (uint32_t i = 0; i < launch.count; ++i) {
    if (launch.streams[i].number == number) {
      return &launch.streams[i];
    }
  }
  return nullptr;
}

void withdraw(OperationProgress& progress) {
  publish(progress.launch, 0U);
}

// Before the marks are on their way, so that they are never seen to be missing.
void remember(Operation& operation, const Launch& launch) {
  const Launch::Stream* const stream = stream_in(launch, operation.stream);
  if (stream == nullptr || stream->launch == 0 || !is_on_a_stream(operation)) {
    return;
  }
  OperationProgress& progress = progress_of(operation);
  const uint32_t shared = stream->shared ? uint32_t{format::kShared} : 0;
  replace(progress,
          {stream->launch, stream->number, operation.index_low, format::kByMarks | shared});
  // An abort sets its flag and then freezes what it finds.
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if ((load(communicator_at(communicator_of(operation)).flags) & format::kAborted) != 0) {
    withdraw(progress);
  }
}

bool is_of(const OperationProgress& progress, const Operation& operation) {
  return load(progress.launch) != 0 && progress.index_low == operation.index_low &&
         (progress.flags & format::kByMarks) != 0;
}

void failed(uint32_t count_of_operations) {
  count(format::Stat::MarksFailed, count_of_operations);
}

void write_second(ThreadState& thread, const OperationProgress& progress, bool launched) {
  Side& side = side_of(progress.stream);
  if (side.closed == progress.launch || load(side.owner) != thread.tid) {
    return;
  }
  const uint32_t& word = words_of(progress.stream).finished;
  const bool written =
      launched && load(g_marks.on) &&
      g_marks.driver.write(thread, handle_of(progress.stream), word, progress.launch);
  if (launched && !written) {
    failed(1);
  }
  end_launch(side, progress.launch, written);
}

}  // namespace

void marks_turn_on(const MarkDriver& driver, MarkWords* words, int32_t device) noexcept {
  g_marks.driver = driver;
  g_marks.words = words;
  g_marks.device = device;
  publish(g_marks.on, true);
}

void marks_turn_off(ThreadState& thread, const char* why) noexcept {
  if (exchange_if(g_marks.on, true, false)) {
    define_fact(thread, "gpu-progress-ended", why, strlen(why));
  }
}

bool marks_are_on() noexcept {
  return load(g_marks.on);
}

void marks_communicator(ThreadState& thread, uint32_t number) noexcept {
  if (!marks_are_on()) {
    return;
  }
  const format::Communicator& communicator = communicator_at(number);
  const bool known = communicator.origin != format::kUnknownOrigin;
  if (known && communicator.device >= 0 && communicator.device != g_marks.device) {
    marks_turn_off(thread, kOtherDevice);
    return;
  }
  if (const char* const why = own_gpu_reason_against(communicator)) {
    say_why(thread, number, why);
    return;
  }
  publish(g_marks.eligible[index_of_communicator(number)], uint8_t{1});
}

void marks_forget(uint32_t index) noexcept {
  if (g_marks.eligible != nullptr) {
    publish(g_marks.eligible[index], uint8_t{0});
  }
}

void marks_before(ThreadState& thread, Operation* const* operations, uint32_t count) noexcept {
  Launch launch;
  if (!marks_are_on() || !gather(thread, launch, operations, count)) {
    return;
  }
  for (uint32_t i = 0; i < launch.count; ++i) {
    begin_launch(thread, launch.streams[i]);
  }
  for (uint32_t i = 0; i < count; ++i) {
    remember(*operations[i], launch);
  }
  for (uint32_t i = 0; i < launch.count; ++i) {
    const Launch::Stream& stream = launch.streams[i];
    const uint32_t& word = words_of(stream.number).reached;
    if (stream.launch != 0 &&
        !g_marks.driver.write(thread, handle_of(stream.number), word, stream.launch)) {
      failed(1);
      end_launch(side_of(stream.number), stream.launch, false);
    }
  }
}

void marks_after(ThreadState& thread, Operation* const* operations, uint32_t count,
                 int result) noexcept {
  if (g_marks.sides == nullptr) {
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const OperationProgress& progress = progress_of(*operations[i]);
    const uint32_t flags = load(communicator_at(communicator_of(*operations[i])).flags);
    if (is_of(progress, *operations[i])) {
      write_second(thread, progress, result == 0 && (flags & format::kAborted) == 0);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    OperationProgress& progress = progress_of(*operations[i]);
    if (!is_of(progress, *operations[i])) {
      continue;
    }
    Side& side = side_of(progress.stream);
    const bool frozen = (load(progress.flags) & format::kFrozen) != 0;
    if (side.failed == progress.launch && !frozen) {
      withdraw(progress);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t stream = operations[i]->stream;
    if (stream != 0 && load(side_of(stream).owner) == thread.tid) {
      publish(side_of(stream).owner, 0);
    }
  }
}

void marks_freeze(Operation& operation) noexcept {
  if (g_marks.words == nullptr) {
    return;
  }
  OperationProgress& progress = progress_of(operation);
  if (!is_of(progress, operation) || (progress.flags & format::kFrozen) != 0) {
    return;
  }
  const MarkWords& words = words_of(progress.stream);
  const bool finished = format::is_marked(load(words.finished), progress.launch);
  const bool reached = finished || format::is_marked(load(words.reached), progress.launch);
  if (finished) {
    fetch_or(operation.flags, static_cast<uint8_t>(format::kFinished));
  }
  fetch_or(progress.flags, format::kFrozen | (reached ? format::kSeenReached : 0U) |
                               (finished ? format::kSeenFinished : 0U));
}

void marks_copy() noexcept {
  if (g_marks.words == nullptr || g_tables.marks == nullptr) {
    return;
  }
  for (uint32_t i = 0; i < g_tables.stream_count; ++i) {
    const uint32_t launched = load(g_marks.words[i].launched);
    if (launched == 0) {
      continue;
    }
    publish(g_tables.marks[i].reached, load(g_marks.words[i].reached));
    publish(g_tables.marks[i].finished, load(g_marks.words[i].finished));
    publish(g_tables.marks[i].launched, launched);
  }
}

void marks_start() noexcept {
  g_marks = {};
  if (g_tables.progress != nullptr && g_gpu_progress == GpuProgress::kMarks) {
    g_marks.sides = private_array<Side>(g_tables.stream_count);
    g_marks.eligible = private_array<uint8_t>(g_tables.communicator_count);
  }
}

void marks_drop() noexcept {
  g_marks = {};
}

}  // namespace traintrace
