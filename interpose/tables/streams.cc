#include "interpose/tables/streams.h"

#include "interpose/record/clock.h"
#include "interpose/record/stats.h"
#include "interpose/tables/captures.h"
#include "interpose/tables/handle_map.h"

namespace traintrace {
namespace {

using format::Stream;

constexpr uint64_t kLegacyStream = 1;
constexpr uint64_t kPerThreadStream = 2;
constexpr uint64_t kCaptureMark = uint64_t{1} << 63;
constexpr int kPositionBits = 48;
constexpr uint64_t kPositionMask = (uint64_t{1} << kPositionBits) - 1;
constexpr uint32_t kMostStreams = (1U << (63 - kPositionBits)) - 1;
constexpr uint32_t kMostEvents = 1U << 14;

// The newest waits of a stream for others; more are needed only where many streams are waited for
// between two synchronisations, and losing one loses no more than knowledge.
constexpr uint32_t kDependencies = 16;
// How far knowledge is handed on from stream to stream.
constexpr int kDeepest = 4;

struct Dependency {
  uint64_t here;   // position of the wait; 0: being written
  uint64_t there;  // mark that is complete once `here` is
};

struct Side {
  uint64_t last_issue_ticks;
  uint32_t capture;
  uint32_t dependencies;  // so far
  uint32_t next_free;
  Dependency dependency[kDependencies];
};

HandleMap g_numbers;
HandleMap g_events;  // -> mark
Side* g_sides;
uint32_t g_used;
uint64_t g_free;  // head of a list of numbers, over it a count against reuse between two steps

Stream& stream_at(uint32_t number) {
  return g_tables.streams[number - 1];
}
Side& side_of(uint32_t number) {
  return g_sides[number - 1];
}

uint32_t stream_limit() {
  const uint32_t count = g_sides == nullptr ? 0 : g_tables.stream_count;
  return count < kMostStreams ? count : kMostStreams;
}
uint32_t used_count() {
  const uint32_t used = load(g_used);
  return used < stream_limit() ? used : stream_limit();
}

bool is_implicit(uint64_t handle) {
  return handle <= kPerThreadStream;
}

// A thread that chose no device uses the first one, and its default stream is that of threads that
// chose it: PyTorch's threads for backward passes choose none on the first device.  -1: not known.
int32_t device_used(const ThreadState& thread) {
  return !thread.device_chosen ? 0 : thread.device == format::kNoDevice ? -1 : thread.device;
}

// Default streams exist per device, and per device and thread; no handle has bit 63.
uint64_t key_of(const ThreadState& thread, uint64_t handle, int32_t device) {
  if (!is_implicit(handle)) {
    return handle;
  }
  const uint64_t place = static_cast<uint8_t>(device < 0 ? device_used(thread) : device);
  const uint64_t owner = handle != kPerThreadStream ? 0
                         : thread.slot != nullptr   ? thread.slot->serial
                                                    : static_cast<uint32_t>(thread.tid);
  const uint64_t kind = handle == kPerThreadStream ? kPerThreadStream : kLegacyStream;
  return uint64_t{1} << 63 | owner << 16 | place << 8 | kind;
}

uint32_t known_stream(const ThreadState& thread, uint64_t handle, int32_t device) {
  return static_cast<uint32_t>(g_numbers.find(key_of(thread, handle, device)));
}

uint64_t mark_of(uint32_t number) {
  if (number == 0) {
    return 0;
  }
  if (const uint32_t capture = load(side_of(number).capture)) {
    return kCaptureMark | capture;
  }
  const uint64_t position = load(stream_at(number).issued) & kPositionMask;
  return position == 0 ? 0 : uint64_t{number} << kPositionBits | position;
}

// Streams that never carried an operation are referred to by none, and may make room.
void give_back(uint32_t number) {
  for (;;) {
    const uint64_t head = load(g_free);
    side_of(number).next_free = static_cast<uint32_t>(head);
    const uint64_t next = ((head >> 32) + 1) << 32 | number;
    if (exchange_if(g_free, head, next)) {
      return;
    }
  }
}

uint32_t take_free() {
  for (;;) {
    const uint64_t head = load(g_free);
    const auto number = static_cast<uint32_t>(head);
    if (number == 0) {
      return 0;
    }
    const uint64_t next = ((head >> 32) + 1) << 32 | load(side_of(number).next_free);
    if (exchange_if(g_free, head, next)) {
      return number;
    }
  }
}

uint32_t enter_stream(ThreadState& thread, uint64_t handle, int32_t device, uint32_t stack,
                      uint64_t ticks) {
  uint32_t number = take_number(g_used, stream_limit());
  if (number == 0) {
    number = take_free();
  }
  if (number == 0 || !g_numbers.put(key_of(thread, handle, device), number)) {
    count(format::Stat::StreamsFull);
    return 0;
  }
  Stream stream{};
  stream.handle_tag = handle + 1;
  stream.device = device >= 0 ? device : device_used(thread);
  stream.flags = is_implicit(handle) ? uint32_t{format::kImplicit} : 0;
  stream.created_ticks = ticks;
  stream.stack = stack;
  replace(stream_at(number), stream);
  return number;
}

void complete(uint64_t mark, uint64_t ticks, int depth);

// What the stream had waited for before it came this far is complete, too.
void complete_dependencies(const Side& side, uint64_t position, uint64_t ticks, int depth) {
  if (load(side.dependencies) == 0 || depth == kDeepest) {
    return;
  }
  for (const Dependency& dependency : side.dependency) {
    const uint64_t here = load(dependency.here);
    const uint64_t there = load(dependency.there);
    if (here != 0 && here <= position && load(dependency.here) == here) {
      complete(there, ticks, depth + 1);
    }
  }
}

void complete(uint64_t mark, uint64_t ticks, int depth) {
  if (mark == 0 || (mark & kCaptureMark) != 0) {
    return;
  }
  const auto number = static_cast<uint32_t>(mark >> kPositionBits);
  const uint64_t position = mark & kPositionMask;
  Stream& stream = stream_at(number);
  for (uint64_t old = load(stream.completed); old < position; old = load(stream.completed)) {
    if (exchange_if(stream.completed, old, position)) {
      publish(stream.completed_ticks, ticks);
      complete_dependencies(side_of(number), position, ticks, depth);
      return;
    }
  }
}

void join_capture(uint32_t number, uint32_t capture) {
  publish(side_of(number).capture, capture);
  fetch_or(stream_at(number).flags, static_cast<uint32_t>(format::kCapturing));
}

void leave_capture(uint32_t number) {
  publish(side_of(number).capture, 0U);
  fetch_and(stream_at(number).flags, ~uint32_t{format::kCapturing});
}

}  // namespace

uint32_t stream_number(ThreadState& thread, uint64_t handle, int32_t device) noexcept {
  const uint32_t known = known_stream(thread, handle, device);
  return known != 0 ? known : enter_stream(thread, handle, device, 0, clock_ticks());
}

uint64_t issue_on(uint32_t number, uint64_t ticks) noexcept {
  if (number == 0) {
    return 0;
  }
  // First the time: who sees the count (device_completed) sees when it was reached, or later.
  raise_to(side_of(number).last_issue_ticks, ticks);
  return fetch_add(stream_at(number).issued, uint64_t{1}) + 1;
}

bool has_completed(uint32_t number, uint64_t position) noexcept {
  return number != 0 && load(stream_at(number).completed) >= position;
}

uint32_t capture_of(uint32_t number) noexcept {
  return number == 0 ? 0 : load(side_of(number).capture);
}

void stream_created(ThreadState& thread, uint64_t stream, uint32_t stack, uint64_t ticks) noexcept {
  enter_stream(thread, stream, -1, stack, ticks);
}

void stream_destroyed(ThreadState& thread, uint64_t stream, uint64_t ticks) noexcept {
  const uint32_t number = is_implicit(stream) ? 0 : known_stream(thread, stream, -1);
  if (number == 0) {
    return;
  }
  g_numbers.erase(stream);
  leave_capture(number);
  publish(stream_at(number).destroyed_ticks, ticks);
  fetch_or(stream_at(number).flags, static_cast<uint32_t>(format::kStreamDestroyed));
  if (load(stream_at(number).issued) == 0) {
    give_back(number);
  }
}

uint64_t event_recording(ThreadState& thread, uint64_t event, uint64_t stream) noexcept {
  g_events.erase(event);
  return mark_of(known_stream(thread, stream, -1));
}

void event_recorded(uint64_t event, uint64_t mark) noexcept {
  if (mark != 0 && event != 0) {
    g_events.put(event, mark);
  }
}

void event_destroyed(uint64_t event) noexcept {
  g_events.erase(event);
}

void stream_waits(ThreadState& thread, uint64_t stream, uint64_t event) noexcept {
  const uint64_t there = g_events.find(event);
  if (there == 0) {
    return;
  }
  const uint32_t number = stream_number(thread, stream, -1);
  if (number == 0) {
    return;
  }
  if ((there & kCaptureMark) != 0) {
    const auto capture = static_cast<uint32_t>(there & ~kCaptureMark);
    if (is_under_way(capture)) {  // the event may be left over from an earlier one
      join_capture(number, capture);
    }
    return;
  }
  const auto other = static_cast<uint32_t>(there >> kPositionBits);
  if (other == number || capture_of(number) != 0 || has_completed(other, there & kPositionMask)) {
    return;
  }
  Side& side = side_of(number);
  Dependency& dependency = side.dependency[fetch_add(side.dependencies, 1U) % kDependencies];
  replace(dependency, {issue_on(number, clock_ticks()), there});
}

uint64_t stream_mark(ThreadState& thread, uint64_t stream) noexcept {
  return mark_of(known_stream(thread, stream, -1));
}

uint64_t event_mark(uint64_t event) noexcept {
  return g_events.find(event);
}

void mark_completed(uint64_t mark, uint64_t ticks) noexcept {
  complete(mark, ticks, 0);
}

void device_completed(ThreadState& thread, uint64_t entered_ticks, uint64_t ticks) noexcept {
  const int32_t device = device_used(thread);
  const uint32_t used = used_count();
  for (uint32_t number = 1; number <= used; ++number) {
    const Stream& stream = stream_at(number);
    const uint64_t issued = load(stream.issued);
    if (issued != 0 && stream.device == device && load(stream.completed) < issued &&
        load(side_of(number).last_issue_ticks) < entered_ticks) {
      complete(uint64_t{number} << kPositionBits | issued, ticks, 0);
    }
  }
}

void capture_began(ThreadState& thread, uint64_t stream) noexcept {
  const uint32_t number = stream_number(thread, stream, -1);
  if (number != 0) {
    join_capture(number, begin_capture());
  }
}

void capture_ended(ThreadState& thread, uint64_t stream, uint64_t graph) noexcept {
  const uint32_t origin = known_stream(thread, stream, -1);
  const uint32_t capture = capture_of(origin);
  if (capture == 0) {
    return;
  }
  const uint32_t used = used_count();
  for (uint32_t number = 1; number <= used; ++number) {
    if (capture_of(number) == capture) {
      leave_capture(number);
    }
  }
  if (graph != 0) {
    finish_capture(capture, graph);
  } else {
    drop_capture(capture);
  }
}

void streams_start() noexcept {
  g_used = 0;
  g_free = 0;
  g_sides = private_array<Side>(g_tables.stream_count);
  g_numbers.start(g_tables.stream_count);
  g_events.start(kMostEvents);
}

void streams_drop() noexcept {
  g_sides = nullptr;
  g_numbers.drop();
  g_events.drop();
}

}  // namespace traintrace
