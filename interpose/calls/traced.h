// The one body of all wrappers.
#pragma once

#include <type_traits>

#include "interpose/base/unwound.h"
#include "interpose/calls/effects.h"
#include "interpose/calls/resolve.h"
#include "interpose/gpu/gpu_timeline.h"
#include "interpose/life/gpu_identities.h"
#include "interpose/life/versions.h"
#include "interpose/tables/allocations.h"
#include "interpose/tables/tables.h"

namespace traintrace {

// What a row cannot say.  Specialised in specials_*.h.
template <format::CallId>
struct Special {
  static void before(OpenFrame&, Scratch&, auto...) noexcept {}
  static void after(OpenFrame&, Scratch&, int, uint64_t, auto...) noexcept {}
};

// The documented answer where no library has the function.
template <class Result>
inline constexpr Result kMissingOriginal = {};

inline constexpr int kNotReady = 600;      // cudaErrorNotReady, CUDA_ERROR_NOT_READY: no failure
inline constexpr int kMemoryRanOut = 2;    // cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
inline constexpr int kNcclInProgress = 7;  // neither failure nor success

inline bool is_failure(int result) noexcept {
  return result != 0 && result != kNotReady && result != kNcclInProgress;
}

constexpr Layer layer_of(format::Library library) {
  switch (library) {
    case format::Library::Nccl:
      return Layer::kNccl;
    case format::Library::Cublas:
    case format::Library::CublasLt:
      return Layer::kBlas;
    default:
      return Layer::kCuda;
  }
}

// Words of a field in the enter record.
template <class Field>
constexpr int words_before() {
  return Field::kAfterCall ? 0 : kIsComm<Field> ? 2 : kIsLayouts<Field> ? 6 : 1;
}

template <format::Library kLibrary, class Row, class Function, class... Fields>
struct Traced;

template <format::Library kLibrary, class Row, class Result, class... Arguments, class... Fields>
struct Traced<kLibrary, Row, Result (*)(Arguments...), Fields...> {
  static constexpr format::CallId kCall = Row::kCall;
  static constexpr format::KindSpec kSpec = format::spec_of(Row::kKind);
  static constexpr Layer kLayer = layer_of(kLibrary);
  static constexpr bool kIsQuery =
      Row::kKind == format::Kind::Query || Row::kKind == format::Kind::CommQuery;
  static constexpr int kIns = (words_before<Fields>() + ... + 0);
  static constexpr int kOuts = ((Fields::kAfterCall ? 1 : 0) + ... + 0);
  static_assert(kIns + kOuts <= format::kMaxFields && kOuts <= kMaxOutFields);

  template <class Field>
  static void put(uint64_t*& to, const Scratch& scratch, Arguments... arguments) noexcept {
    if constexpr (kIsComm<Field>) {
      *to++ = scratch.operation.communicator;
      *to++ = scratch.operation.sequence;
    } else if constexpr (kIsLayouts<Field>) {
      for (const uint64_t each : scratch.matrices) {
        *to++ = each;
      }
    } else if constexpr (Field::kField == format::Field::Communicator ||
                         Field::kField == format::Field::NewCommunicator) {
      *to++ = communicator_number(Field::read(arguments...));
    } else {
      *to++ = Row::stream_or_value(Field::kField, Field::read(arguments...));
    }
  }

  template <bool kAfterCall>
  static void collect(uint64_t* to, const Scratch& scratch, Arguments... arguments) noexcept {
    [[maybe_unused]] const auto put_if = [&]<class Field>() {
      if constexpr (Field::kAfterCall == kAfterCall) {
        put<Field>(to, scratch, arguments...);
      }
    };
    (put_if.template operator()<Fields>(), ...);
  }

  [[gnu::always_inline]] static void enter(OpenFrame& frame, Scratch& scratch,
                                           Arguments... arguments) noexcept {
    uint64_t fields[kIns + 1] = {};
    if constexpr (kIsQuery) {
      collect<false>(fields, scratch, arguments...);
      if (fold_query(frame, kIns ? fields[0] : 0)) {
        Row::before(frame, scratch, arguments...);
        return;
      }
    }
    if constexpr (begins_use(Row::kKind)) {
      if (load(g_new_version)) [[unlikely]] {
        define_versions(*frame.thread);
        gpu_timeline_begin(*frame.thread);
      }
    }
    if constexpr (kSpec.stack) {
      frame.stack = current_stack(*frame.thread, walk_from_here());
    }
    Row::before(frame, scratch, arguments...);
    Special<kCall>::before(frame, scratch, arguments...);
    collect<false>(fields, scratch, arguments...);
    record_enter(frame, fields, kIns, kIsQuery);
    if constexpr (kIsQuery) {
      remember_query(frame, kIns ? fields[0] : 0);
    }
  }

  static void leave(OpenFrame& frame, Scratch& scratch, int result,
                    Arguments... arguments) noexcept {
    const uint64_t ticks = clock_ticks();
    Row::after(frame, scratch, result, ticks, arguments...);
    Special<kCall>::after(frame, scratch, result, ticks, arguments...);
    if constexpr (kLayer == Layer::kCuda && !kIsQuery) {
      if (result == kMemoryRanOut) [[unlikely]] {
        ask_memory_left(*frame.thread, ticks);
        memory_ran_out(*frame.thread, FailureSort::kCall,
                       {static_cast<uint16_t>(kCall), result,
                        device_allocating(*frame.thread, static_cast<uint16_t>(kCall)),
                        Row::asked_bytes(arguments...), 0, 0, frame.stack, ticks});
      }
    }
    uint64_t fields[kOuts + 1] = {};
    const int outs = result == 0 ? kOuts : 0;
    if (outs) {
      collect<true>(fields, scratch, arguments...);
    }
    if constexpr (kIsQuery) {
      const int outcome = result == 0 ? static_cast<int>(fields[0]) : result;
      const bool differs = outcome != frame.poll->outcome;
      if (frame.folded && differs && (outcome == 0 || is_failure(outcome))) {
        uint64_t ins[kIns + 1] = {};
        collect<false>(ins, scratch, arguments...);
        unfold_query(frame, ins, kIns, outcome);
      } else if (differs) {
        frame.poll->outcome = outcome;
      }
    }
    if (frame.recorded) {
      write_leave(*frame.thread, kCall, ticks, result, fields, outs);
    }
    if constexpr (Row::kKind == format::Kind::Sync) {
      gpu_timeline_synchronised(*frame.thread);
    }
    if constexpr (begins_use(Row::kKind)) {
      if (result == 0) {
        define_gpu_identities(*frame.thread);
      }
    }
    close_call(frame);
  }

  template <class Stream, class HostCall, class... Rest>
  static Result call_wrapped(Result (*real)(Arguments...), uint32_t number, Stream stream, HostCall,
                             void*, Rest... rest) {
    HostCall ours;
    if constexpr (std::is_invocable_v<HostCall, void*>) {
      ours = call_host_function;
    } else {
      ours = reinterpret_cast<HostCall>(&call_host_function_with_status);
    }
    return real(stream, ours, host_function_data(number), rest...);
  }

  [[gnu::always_inline]] static Result call_real(Result (*real)(Arguments...),
                                                 [[maybe_unused]] const Scratch& scratch,
                                                 Arguments... arguments) {
    if constexpr (Row::is(format::Kind::HostFunction)) {
      if (scratch.host_function) {
        return call_wrapped(real, scratch.host_function, arguments...);
      }
    }
    return real(arguments...);
  }

  // Under the call's own name, or another one that the library has for it.
  template <SymbolId kSymbol>
  static Result call(Arguments... arguments) {
    TT_TELL_WHEN_UNWOUND(tt_call_unwound);
    const void* const caller = __builtin_return_address(0);
    auto* const real =
        reinterpret_cast<Result (*)(Arguments...)>(original(kLibrary, kSymbol, caller));
    if (!real) [[unlikely]] {
      return kMissingOriginal<Result>;
    }
    if constexpr (Row::is(format::Kind::Product)) {
      if (!gpu_timeline_is_on()) {  // without it nobody reads them
        return real(arguments...);
      }
    }
    OpenFrame frame;
    ThreadState* const thread = thread_to_record(kSpec.arms);
    if (!thread || !open_call(frame, thread, kCall, kLayer, caller)) {
      return real(arguments...);
    }
    Scratch scratch;
    enter(frame, scratch, arguments...);
    leave_tracer(*thread);
    const Result result = call_real(real, scratch, arguments...);
    if (reenter_tracer(frame)) [[likely]] {
      leave(frame, scratch, static_cast<int>(result), arguments...);
    }
    return result;
  }
};

}  // namespace traintrace
