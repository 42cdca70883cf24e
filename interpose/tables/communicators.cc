#include "interpose/tables/communicators.h"

#include <string.h>

#include "interpose/base/undisturbed.h"
#include "interpose/gpu/marks.h"
#include "interpose/record/definitions.h"
#include "interpose/record/stats.h"
#include "interpose/tables/communicator_identity.h"
#include "interpose/tables/handle_map.h"
#include "interpose/tables/operations.h"

namespace traintrace {
namespace {

using format::Communicator;

// ncclResult_t, of which only these mean something here.
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;

// What the file need not know.
struct Side {
  uint32_t children;  // splits of it, those that failed after their arguments were checked too
  // While the creating call has returned but the communicator is not there yet.
  const ThreadState* pending;
  const void* where;  // ncclComm_t* that NCCL will store it to, null: stored already
  uint64_t ended_handle;
  uint32_t making_room;  // the element is being given to another one
};

HandleMap g_numbers;
Side* g_sides;
uint32_t g_used;
uint32_t g_pending;

Side& side_of(uint32_t number) {
  return g_sides[index_of_communicator(number)];
}

void map_handle(uint32_t number, uint64_t handle) {
  if (handle == 0) {
    return;
  }
  publish(communicator_at(number).handle, handle);
  if (!g_numbers.put(handle, number)) {
    count(format::Stat::CommunicatorsFull);
  }
}

void set_done(Communicator& communicator, uint64_t ticks) {
  if ((load(communicator.flags) & format::kInitDone) == 0) {
    publish(communicator.ready_ticks, ticks);
    fetch_or(communicator.flags, static_cast<uint32_t>(format::kInitDone));
  }
}

void set_error(Communicator& communicator, int error, uint64_t ticks) {
  if (load(communicator.error_ticks) == 0) {
    publish(communicator.error_ticks, ticks);
  }
  publish(communicator.async_error, error);
}

void set_failed(uint32_t number, int result, uint64_t ticks) {
  Communicator& communicator = communicator_at(number);
  set_error(communicator, result, ticks);
  fetch_or(communicator.flags, static_cast<uint32_t>(format::kInitFailed));
  // NCCL counts a split once its arguments have been found good.
  const uint32_t parent = communicator.parent_index;
  if (communicator.origin == format::kSplit && parent != 0 && is_in_table(parent) &&
      refused(result)) {
    exchange_if(side_of(parent).children, communicator.ordinal, communicator.ordinal - 1);
  }
}

void set_pending(ThreadState& thread, uint32_t number, const void* where) {
  Side& side = side_of(number);
  side.where = where;
  if (side.pending == nullptr) {
    fetch_add(g_pending, 1U);
  }
  publish(side.pending, static_cast<const ThreadState*>(&thread));
}

void set_settled(Side& side) {
  side.where = nullptr;
  publish(side.pending, static_cast<const ThreadState*>(nullptr));
  fetch_add(g_pending, ~0U);
}

void read_deferred(uint32_t number) {
  if (const void* const where = side_of(number).where) {
    uint64_t handle = 0;
    memcpy(&handle, where, sizeof handle);
    map_handle(number, handle);
  }
}

// The one that had that handle until it ended; 0: none.
uint32_t ended_with(uint64_t handle) {
  uint32_t found = 0;
  for_each_communicator([&](uint32_t number, Communicator&) {
    found = load(side_of(number).ended_handle) == handle ? number : found;
  });
  return found;
}

// Nothing of it changes any more, and no call on it is under way.
bool is_over(const Communicator& communicator, const Side& side) {
  const uint32_t flags = load(communicator.flags);
  const bool never_was =
      (flags & format::kInitFailed) != 0 ||
      (flags & (format::kNoColor | format::kInitDone)) == (format::kNoColor | format::kInitDone);
  return load(communicator.used) != 0 && load(side.pending) == nullptr &&
         load(communicator.handle) == 0 && (load(communicator.ended_ticks) != 0 || never_was);
}

// Of what was aborted the last operations may tell why, so others go first.
uint64_t worth_keeping(const Communicator& communicator) {
  const uint64_t ticks =
      communicator.ended_ticks != 0 ? communicator.ended_ticks : communicator.created_ticks;
  const bool aborted = (load(communicator.flags) & format::kAborted) != 0;
  return aborted ? ticks | uint64_t{1} << 63 : ticks;
}

// 0: all are alive.
uint32_t choose_ended() {
  uint32_t chosen = 0;
  uint64_t least = UINT64_MAX;
  for_each_communicator([&](uint32_t number, Communicator& communicator) {
    const uint64_t worth = worth_keeping(communicator);
    if (worth < least && is_over(communicator, side_of(number)) &&
        load(side_of(number).making_room) == 0) {
      least = worth;
      chosen = number;
    }
  });
  return chosen;
}

bool define_ended(ThreadState& thread, const Communicator& communicator) {
  using Definition = format::EndedCommunicatorDefinition;
  auto* const definition = static_cast<Definition*>(begin_definition(
      thread, format::kEndedCommunicator, sizeof(Definition) + sizeof communicator));
  if (definition == nullptr) {
    return false;
  }
  definition->number = communicator.number;
  definition->communicator_bytes = sizeof communicator;
  memcpy(definition + 1, &communicator, sizeof communicator);
  commit_definition(thread, definition);
  return true;
}

// The number of an element that is empty and not in use; 0: there is none.
uint32_t make_room(ThreadState& thread) {
  const Undisturbed undisturbed;
  const uint32_t old = choose_ended();
  if (old == 0 || old > UINT32_MAX / 4 || !exchange_if(side_of(old).making_room, 0U, 1U)) {
    return 0;
  }
  Communicator& communicator = communicator_at(old);
  Side& side = side_of(old);
  if (communicator.number != old || !is_over(communicator, side) ||
      !define_ended(thread, communicator)) {
    publish(side.making_room, 0U);
    return 0;
  }
  publish(communicator.used, 0U);
  store_fence();
  remember_identity(communicator);
  forget_operations(old);
  memset(&communicator.origin, 0, sizeof communicator - sizeof communicator.used);
  side.children = 0;
  side.where = nullptr;
  side.ended_handle = 0;
  return old + g_tables.communicator_count;
}

int32_t device_of(const ThreadState& thread) {
  return thread.device == format::kNoDevice ? -1 : thread.device;
}

}  // namespace

uint32_t communicator_entered(ThreadState& thread,
                              const CommunicatorArguments& arguments) noexcept {
  const bool child = arguments.parent != 0;
  const uint32_t parent =
      child ? number_of_communicator(thread, arguments.parent, arguments.ticks) : 0;
  uint32_t number = g_sides == nullptr ? 0 : take_number(g_used, g_tables.communicator_count);
  if (number == 0 && g_sides != nullptr) {
    number = make_room(thread);
  }
  if (number == 0) {
    count(format::Stat::CommunicatorsFull);
    return 0;
  }
  Communicator& into = communicator_at(number);
  into.number = number;
  into.origin = arguments.origin;
  into.size = arguments.size;
  into.rank = arguments.rank;
  into.device = arguments.device >= 0 || child ? arguments.device : device_of(thread);
  into.color = arguments.color;
  into.key = arguments.key;
  into.flags = arguments.non_blocking ? uint32_t{format::kNonBlocking} : 0;
  into.created_ticks = arguments.ticks;
  into.created_stack = arguments.stack;
  if (arguments.name != nullptr) {
    strncpy(into.name, arguments.name, sizeof into.name - 1);
  }
  into.parent_index = parent;
  identify(into, number, arguments, parent == 0 ? nullptr : &side_of(parent).children);
  publish(into.used, 1U);
  publish(side_of(number).making_room, 0U);
  marks_communicator(thread, number);
  return number;
}

void communicator_ready(ThreadState& thread, uint32_t element, uint64_t handle, int result,
                        uint64_t ticks) noexcept {
  if (element == 0) {
    return;
  }
  Communicator& communicator = communicator_at(element);
  if (result != kSuccess && result != kInProgress) {
    set_failed(element, result, ticks);
    return;
  }
  map_handle(element, handle);
  if (result == kInProgress) {
    fetch_or(communicator.flags, static_cast<uint32_t>(format::kNonBlocking));
  } else if (thread.group_depth > 0) {
    set_pending(thread, element, nullptr);
  } else {
    set_done(communicator, ticks);
  }
}

void communicator_deferred(ThreadState& thread, uint32_t element, const void* where) noexcept {
  if (element != 0) {
    set_pending(thread, element, where);
  }
}

void communicators_group_ended(ThreadState& thread, int result, uint64_t ticks) noexcept {
  if (load(g_pending) == 0) {
    return;
  }
  for_each_communicator([&](uint32_t number, Communicator& communicator) {
    Side& side = side_of(number);
    if (load(side.pending) != &thread || result == kInProgress) {
      return;
    }
    if (result == kSuccess) {
      read_deferred(number);
      set_done(communicator, ticks);
    } else {
      set_failed(number, result, ticks);
    }
    set_settled(side);
  });
}

void communicator_error(ThreadState&, uint64_t handle, int async_error, uint64_t ticks) noexcept {
  const uint32_t number = communicator_number(handle);
  if (number == 0 || async_error == kInProgress) {
    return;
  }
  Communicator& communicator = communicator_at(number);
  if (async_error != kSuccess) {
    set_error(communicator, async_error, ticks);
    fetch_or(communicator.flags, static_cast<uint32_t>(format::kAsyncError));
    return;
  }
  set_done(communicator, ticks);
  if ((load(communicator.flags) & format::kNonBlocking) != 0) {
    operations_settled(number, ticks);
  }
  if (load(g_pending) == 0) {
    return;
  }
  for_each_communicator([&](uint32_t child, Communicator& element) {
    Side& side = side_of(child);
    if (load(side.pending) != nullptr && (element.parent_index == number || child == number)) {
      read_deferred(child);
      set_done(element, ticks);
      set_settled(side);
    }
  });
}

void communicator_ending(ThreadState&, uint64_t handle, CommunicatorEnd how, uint32_t stack,
                         uint64_t ticks) noexcept {
  const uint32_t number = communicator_number(handle);
  if (number == 0 || how == CommunicatorEnd::kFinalize) {
    return;
  }
  Communicator& communicator = communicator_at(number);
  const bool aborts = how != CommunicatorEnd::kDestroy;
  if (communicator.ended_ticks == 0) {
    communicator.ended_stack = stack;
    publish(communicator.ended_ticks, ticks);
  }
  const uint32_t flag = aborts ? uint32_t{format::kAborted} : uint32_t{format::kDestroyed};
  const uint32_t before = fetch_or(communicator.flags, flag);
  if ((flag & ~before & format::kAborted) != 0) {
    freeze_operations(number);
  }
  if (how != CommunicatorEnd::kRevoke) {
    publish(side_of(number).ended_handle, handle);
    g_numbers.erase(handle);  // another thread may get the same address before this call returns
  }
}

void communicator_ended(ThreadState&, uint64_t handle, CommunicatorEnd how, int result) noexcept {
  if (how == CommunicatorEnd::kRevoke || (result != kSuccess && result != kInProgress)) {
    return;
  }
  if (how == CommunicatorEnd::kFinalize) {
    if (const uint32_t number = communicator_number(handle)) {
      fetch_or(communicator_at(number).flags, static_cast<uint32_t>(format::kFinalized));
    }
    return;
  }
  for_each_communicator([&](uint32_t, Communicator& communicator) {
    if (load(communicator.handle) == handle && load(communicator.ended_ticks) != 0) {
      publish(communicator.handle, uint64_t{0});
    }
  });
}

uint32_t communicators_used() noexcept {
  const uint32_t used = load(g_used);
  return used < g_tables.communicator_count ? used : g_tables.communicator_count;
}

uint32_t communicator_number(uint64_t handle) noexcept {
  return static_cast<uint32_t>(handle == 0 ? 0 : g_numbers.find(handle));
}

uint32_t number_of_communicator(ThreadState& thread, uint64_t handle, uint64_t ticks) noexcept {
  const uint32_t known = communicator_number(handle);
  if (known != 0 || handle == 0) {
    return known;
  }
  CommunicatorArguments unknown{};
  unknown.origin = format::kUnknownOrigin;
  unknown.size = -1;
  unknown.rank = -1;
  unknown.device = -1;
  unknown.ticks = ticks;
  const uint32_t ended = ended_with(handle);
  if (ended == 0) {  // else it is known which one is meant
    count(format::Stat::UnknownCommunicator);
  }
  const uint32_t number = communicator_entered(thread, unknown);
  if (number != 0) {
    if (ended != 0) {
      communicator_at(number).parent_index = ended;
      fetch_or(communicator_at(number).flags, static_cast<uint32_t>(format::kAfterEnd));
    }
    map_handle(number, handle);
    set_done(communicator_at(number), ticks);
  }
  return number;
}

void communicators_start() noexcept {
  g_used = 0;
  g_pending = 0;
  g_sides = private_array<Side>(g_tables.communicator_count);
  g_numbers.start(g_tables.communicator_count);
  identities_start();
}

void communicators_drop() noexcept {
  g_sides = nullptr;
  g_numbers.drop();
  identities_drop();
}

}  // namespace traintrace
