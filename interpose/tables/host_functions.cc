#include "interpose/tables/host_functions.h"

#include <unistd.h>

#include "interpose/base/guard.h"
#include "interpose/base/unwound.h"
#include "interpose/record/clock.h"
#include "interpose/record/stats.h"
#include "interpose/tables/streams.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

// Beside the element of the same number in the trace.  Not in private_memory(): CUDA's threads use
// it whatever becomes of the trace.
struct Wrapped {
  uint32_t taken;
  uint64_t generation;
  void* function;
  void* data;
  uint64_t mark;
};
constexpr uint32_t kMostWrapped = 512;
constexpr uint64_t kPositionMask = (uint64_t{1} << 48) - 1;  // of a mark, streams.h
constinit Wrapped g_wrapped[kMostWrapped] = {};
constinit uint32_t g_next = 0;
constinit IsCapturing g_is_capturing = nullptr;

bool runs_once(uint64_t stream) {
  constexpr int kNotCapturing = 0;
  const IsCapturing ask = load(g_is_capturing);
  int status = kNotCapturing;
  return ask != nullptr && ask(stream, &status) == 0 && status == kNotCapturing;
}

// In turn, so that what became free last is shown longest.
uint32_t take() {
  constexpr uint32_t kMostTries = 32;
  const uint32_t room =
      g_tables.host_function_count < kMostWrapped ? g_tables.host_function_count : kMostWrapped;
  for (uint32_t tries = 0; room != 0 && tries < kMostTries; ++tries) {
    const uint32_t index = fetch_add(g_next, 1U) % room;
    if (load(g_wrapped[index].taken) == 0 && exchange_if(g_wrapped[index].taken, 0U, 1U)) {
      return index + 1;
    }
  }
  count(format::Stat::HostFunctionsFull);
  return 0;
}

format::HostFunction& element_of(const Wrapped& wrapped) {
  return g_tables.host_functions[&wrapped - g_wrapped];
}

// In a child that was forked inside the function, or after it, the trace is another one.
bool is_of_this_trace(uint64_t generation) {
  return generation == armed_generation();
}

void entered(const Wrapped& wrapped, bool is_well) {
  if (!is_of_this_trace(wrapped.generation)) {
    return;
  }
  const uint64_t ticks = clock_ticks();
  format::HostFunction& element = element_of(wrapped);
  element.tid = gettid();
  publish(element.entered_ticks, ticks);
  if (is_well) {
    mark_completed(wrapped.mark, ticks);
  }
}

// The function that the thread is in; it lies on the stack of ours that calls it.
struct InFunction {
  Wrapped& wrapped;
  uint64_t generation;
  const InFunction* outer;
};
constinit thread_local const InFunction* t_in_function = nullptr;

void left(Wrapped& wrapped, uint64_t generation) {
  if (is_of_this_trace(generation)) {
    publish(element_of(wrapped).left_ticks, clock_ticks());
    publish(wrapped.taken, 0U);
  }
}

// Errors of the call itself.  With any other, which may be that of earlier work, it is not sure
// that the function will not be called: then its place is never given to another one.
bool was_refused(int result) {
  constexpr int kInvalidContext = 201;
  constexpr int kInvalidHandle = 400;
  return result < 10 || result == kInvalidContext || result == kInvalidHandle ||
         (result >= 800 && result < 810) ||  // not permitted, not supported
         (result >= 900 && result < 910);    // about captures
}

}  // namespace

void host_functions_may_ask(IsCapturing ask) noexcept {
  publish(g_is_capturing, ask);
}

bool host_functions_can_ask() noexcept {
  return load(g_is_capturing) != nullptr;
}

uint32_t host_function_wrapped(ThreadState& thread,
                               const HostFunctionArguments& arguments) noexcept {
  if (arguments.function == nullptr || !runs_once(arguments.stream)) {
    return 0;
  }
  const uint32_t number = take();
  if (number == 0) {
    return 0;
  }
  const uint64_t mark = stream_mark(thread, arguments.stream);
  format::HostFunction element{};
  element.function = reinterpret_cast<uint64_t>(arguments.function);
  element.enqueued_ticks = arguments.ticks;
  element.position = mark & kPositionMask;
  element.stream = stream_number(thread, arguments.stream, -1);
  element.stack = arguments.stack;
  element.call = static_cast<uint16_t>(arguments.call);
  element.device = thread.device;
  replace(g_tables.host_functions[number - 1], element);
  Wrapped& wrapped = g_wrapped[number - 1];
  wrapped.generation = armed_generation();
  wrapped.function = arguments.function;
  wrapped.data = arguments.data;
  wrapped.mark = mark;
  return number;
}

void host_function_enqueued(uint32_t number, int result) noexcept {
  if (number == 0 || result == 0) {
    return;
  }
  publish(g_tables.host_functions[number - 1].function, uint64_t{0});
  if (was_refused(result)) {
    publish(g_wrapped[number - 1].taken, 0U);
  }
}

void call_host_function(void* data) {
  TT_TELL_WHEN_UNWOUND(tt_host_function_unwound);
  auto& wrapped = *static_cast<Wrapped*>(data);
  const Wrapped before = wrapped;
  const InFunction here = {wrapped, before.generation, t_in_function};
  t_in_function = &here;
  entered(wrapped, true);
  reinterpret_cast<HostFunction>(before.function)(before.data);
  t_in_function = here.outer;
  left(wrapped, before.generation);
}

void call_host_function_with_status(void* stream, int status, void* data) {
  TT_TELL_WHEN_UNWOUND(tt_host_function_unwound);
  auto& wrapped = *static_cast<Wrapped*>(data);
  const Wrapped before = wrapped;
  const InFunction here = {wrapped, before.generation, t_in_function};
  t_in_function = &here;
  entered(wrapped, status == 0);
  reinterpret_cast<HostFunctionWithStatus>(before.function)(stream, status, before.data);
  t_in_function = here.outer;
  left(wrapped, before.generation);
}

extern "C" int tt_host_function_unwound(int, int actions, uint64_t, void*, void*) noexcept {
  const InFunction* const here = t_in_function;
  if (is_cleaning_up(actions) && here != nullptr) {
    t_in_function = here->outer;
    left(here->wrapped, here->generation);
  }
  return kContinueUnwind;
}

void* host_function_data(uint32_t number) noexcept {
  return &g_wrapped[number - 1];
}

// Those that a forked child inherited are never called there.
void host_functions_start() noexcept {
  for (Wrapped& wrapped : g_wrapped) {
    publish(wrapped.taken, 0U);
  }
}

}  // namespace traintrace
