// What a call of each kind means for the tables that are never evicted: the calls into state.h that
// follow from a row's kind and fields.  What does not follow from them is in specials_*.h.
#pragma once

#include "interpose/calls/fields.h"
#include "interpose/calls/open_call.h"
#include "interpose/payload/batches.h"
#include "interpose/payload/scalars.h"
#include "interpose/tables/failures.h"
#include "interpose/tables/host_functions.h"
#include "interpose/tables/state.h"

namespace traintrace {

// What an effect keeps from before the real call to after it.
struct Scratch {
  uint64_t mark = 0;
  OperationRef operation = {};
  uint32_t element = 0;
  uint32_t host_function = 0;
  bool scalars_pending = false;
  // Of a product whose matrices are described elsewhere; not initialised either.
  uint64_t matrices[6];
  static constexpr int kMaxElements = 64;
  uint32_t elements[kMaxElements];  // of ncclCommInitAll only, so not initialised
};

// Where copies go between, specialised in wrappers_driver.cc for those whose name says it.
enum class CopyWay : uint8_t { kOther, kToHost, kToDevice };
template <format::CallId>
inline constexpr CopyWay kCopyWay = CopyWay::kOther;

// Memory that is the host's, too; specialised beside.
enum class HostMemory : uint8_t { kOther, kManaged, kFlagged };
template <format::CallId>
inline constexpr HostMemory kHostMemory = HostMemory::kOther;

inline constexpr uint64_t kHostToDevice = 1;  // cudaMemcpyHostToDevice
inline constexpr uint64_t kDeviceToHost = 2;  // cudaMemcpyDeviceToHost

// Of one element of an array that the call makes; 0: not known.  Specialised in wrappers_*.cc.
template <format::CallId>
struct ArrayElement {
  static uint64_t bytes(auto...) noexcept { return 0; }
};

// With all its levels, each half as large as the one before.  A height or depth of 0 is none.
inline uint64_t elements_of_array(uint64_t width, uint64_t height, uint64_t depth,
                                  uint64_t levels) noexcept {
  uint64_t elements = 0;
  const auto or_one = [](uint64_t length) { return length != 0 ? length : 1; };
  for (uint64_t level = 0; level < levels && level < 64; ++level) {
    elements += or_one(width >> level) * or_one(height >> level) * or_one(depth >> level);
  }
  return elements;
}

// A row.  `kPerThread`: stream 0 means the thread's own default stream.
template <format::CallId kCallId, format::Kind kKindOf, bool kPerThread, class... Fields>
struct Row {
  using Field = format::Field;
  using Kind = format::Kind;
  static constexpr format::CallId kCall = kCallId;
  static constexpr Kind kKind = kKindOf;

  template <Field kName>
  static constexpr bool kHas = Named<kName, Fields...>::kExists;
  template <Field kName>
  static constexpr bool kGives = ((Fields::kField == kName && Fields::kAfterCall) || ...);

  static uint64_t stream_or_value(Field field, uint64_t value) noexcept {
    constexpr uint64_t kOwnDefaultStream = 2;  // cudaStreamPerThread, CU_STREAM_PER_THREAD
    return field == Field::Stream && kPerThread && value == 0 ? kOwnDefaultStream : value;
  }

  template <Field kName, class... Arguments>
  static uint64_t get(Arguments... arguments) noexcept {
    return stream_or_value(kName, Named<kName, Fields...>::read(0, arguments...));
  }
  template <Field kName, class... Arguments>
  static int32_t get_int(Arguments... arguments) noexcept {
    return static_cast<int32_t>(Named<kName, Fields...>::read(~uint64_t{0}, arguments...));
  }

  static constexpr bool is(Kind kind) { return kKind == kind; }
  static constexpr bool waits() { return is(Kind::Sync) || is(Kind::Query); }
  // For a stream, or for the whole device of the thread.
  static constexpr bool synchronizes() {
    return is(Kind::Sync) && !kHas<Field::Event> && !kHas<Field::Context>;
  }
  // Copies of so many bytes in a row to memory with an address, if it is the host's.
  static constexpr bool may_fetch() {
    return is(Kind::Copy) && kHas<Field::Destination> && kHas<Field::Bytes> &&
           (kHas<Field::CopyKind> || kCopyWay<kCall> == CopyWay::kToHost);
  }
  static constexpr bool may_send() {
    return is(Kind::Copy) && kHas<Field::Source> && kHas<Field::Bytes> &&
           (kHas<Field::CopyKind> || kCopyWay<kCall> == CopyWay::kToDevice);
  }
  // What is captured is copied when the graph is launched, if ever.
  template <class... Arguments>
  static bool sends_batch(ThreadState& thread, Arguments... arguments) noexcept {
    return g_payload >= Payload::kBatches && get<Field::Bytes>(arguments...) >= kFewestBatchBytes &&
           (!kHas<Field::CopyKind> || get<Field::CopyKind>(arguments...) == kHostToDevice) &&
           (!kHas<Field::Stream> ||
            !is_capture_mark(stream_mark(thread, get<Field::Stream>(arguments...))));
  }
  // Managed memory, by its functions' names, and what flags say that it is write-combined, or
  // registers of a device.
  template <class... Arguments>
  static bool is_to_be_avoided(Arguments... arguments) noexcept {
    // cudaHostAllocWriteCombined, cudaHostRegisterIoMemory, and the driver's of these.
    constexpr uint64_t kWriteCombinedOrIo = 4;
    return g_payload != Payload::kOff &&
           (kHostMemory<kCall> == HostMemory::kManaged ||
            (kHostMemory<kCall> == HostMemory::kFlagged &&
             (get<Field::Flags>(arguments...) & kWriteCombinedOrIo) != 0));
  }
  template <class... Arguments>
  static bool fetches_scalar(Arguments... arguments) noexcept {
    const uint64_t bytes = get<Field::Bytes>(arguments...);
    return g_payload != Payload::kOff && bytes != 0 && bytes <= kMostScalarBytes &&
           (!kHas<Field::CopyKind> || get<Field::CopyKind>(arguments...) == kDeviceToHost);
  }

  // Bytes of an allocation: as asked for, of all elements of an array, or pitch times rows.
  template <class... Arguments>
  static uint64_t bytes(Arguments... arguments) noexcept {
    if constexpr (kHas<Field::Bytes>) {
      return get<Field::Bytes>(arguments...);
    } else if constexpr (kHas<Field::Array>) {
      return ArrayElement<kCall>::bytes(arguments...) *
             elements_of_array(get<Field::Width>(arguments...), get<Field::Height>(arguments...),
                               get<Field::Depth>(arguments...),
                               Named<Field::Levels, Fields...>::read(1, arguments...));
    } else {
      return get<Field::Pitch>(arguments...) * get<Field::Height>(arguments...) *
             Named<Field::Depth, Fields...>::read(1, arguments...);
    }
  }

  // Memory is known by its address, else by the handle of it.
  template <class... Arguments>
  static uint64_t memory(Arguments... arguments) noexcept {
    if constexpr (kHas<Field::Address>) {
      return get<Field::Address>(arguments...);
    } else if constexpr (kHas<Field::Handle>) {
      return get<Field::Handle>(arguments...);
    } else {
      return get<Field::Array>(arguments...);
    }
  }

  // What a call that failed had asked for: from parameters that the call does not fill in.
  template <class... Arguments>
  static uint64_t asked_bytes(Arguments... arguments) noexcept {
    if constexpr (!is(Kind::Alloc)) {
      return 0;
    } else if constexpr (kHas<Field::Bytes> && !kGives<Field::Bytes>) {
      return get<Field::Bytes>(arguments...);
    } else {
      return kHas<Field::Array>
                 ? 0
                 : get<Field::Width>(arguments...) * get<Field::Height>(arguments...);
    }
  }

  template <class... Arguments>
  static void operation_enters(OpenFrame& frame, Scratch& scratch,
                               Arguments... arguments) noexcept {
    const int32_t root = get_int<Field::Root>(arguments...);
    scratch.operation = operation_entered(
        *frame.thread, {kCall, is(Kind::Collective), is(Kind::SendRecv) && kHas<Field::Destination>,
                        get<Field::Communicator>(arguments...), get<Field::Count>(arguments...),
                        get_int<Field::DataType>(arguments...), get_int<Field::RedOp>(arguments...),
                        root >= 0 ? root : get_int<Field::Peer>(arguments...),
                        get<Field::Stream>(arguments...), frame.stack, frame.ticks,
                        get<Field::Source>(arguments...), get<Field::Destination>(arguments...)});
  }

  template <class... Arguments>
  static void before(OpenFrame& frame, Scratch& scratch, Arguments... arguments) noexcept {
    ThreadState& thread = *frame.thread;
    if constexpr (synchronizes() || may_fetch()) {
      scratch.scalars_pending = scalars_are_pending(thread);
    }
    if constexpr (is(Kind::Free) && kHas<Field::Address> && kHas<Field::Bytes>) {
      freed_range(thread, kCall, get<Field::Address>(arguments...),
                  get<Field::Bytes>(arguments...));
    } else if constexpr (is(Kind::Free)) {
      if (const uint64_t address = memory(arguments...)) {
        freed(thread, kCall, address);
        memory_freed(address);
      }
    } else if constexpr (is(Kind::Launch) && kHas<Field::Function>) {
      kernel_launched(thread, get<Field::Function>(arguments...));
    } else if constexpr (is(Kind::Collective) || is(Kind::SendRecv)) {
      operation_enters(frame, scratch, arguments...);
    } else if constexpr (is(Kind::GroupEnd)) {
      group_ending(thread);
    } else if constexpr (waits() && kHas<Field::Stream>) {
      scratch.mark = stream_mark(thread, get<Field::Stream>(arguments...));
    } else if constexpr (waits() && kHas<Field::Event>) {
      scratch.mark = event_mark(get<Field::Event>(arguments...));
    } else if constexpr (is(Kind::Record) && kHas<Field::Stream>) {
      scratch.mark = event_recording(thread, get<Field::Event>(arguments...),
                                     get<Field::Stream>(arguments...));
    } else if constexpr (is(Kind::Destroy) && kHas<Field::Stream>) {
      stream_destroyed(thread, get<Field::Stream>(arguments...), frame.ticks);
    } else if constexpr ((is(Kind::Destroy) || is(Kind::Record)) && kHas<Field::Event>) {
      // Gone, or recorded for a whole context: it has no place on a stream any more.
      event_destroyed(get<Field::Event>(arguments...));
    } else if constexpr (is(Kind::Destroy) && kHas<Field::GraphExec>) {
      graph_exec_destroyed(get<Field::GraphExec>(arguments...));
    } else if constexpr (is(Kind::Destroy) && kHas<Field::Graph>) {
      graph_destroyed(get<Field::Graph>(arguments...));
    } else if constexpr (is(Kind::HostFunction)) {
      scratch.host_function = host_function_wrapped(
          thread,
          {kCall, get<Field::Stream>(arguments...),
           reinterpret_cast<void*>(get<Field::Function>(arguments...)),
           reinterpret_cast<void*>(get<Field::Value>(arguments...)), frame.stack, frame.ticks});
    }
  }

  // After any outcome.
  template <class... Arguments>
  static void after(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks,
                    Arguments... arguments) noexcept {
    ThreadState& thread = *frame.thread;
    if constexpr (is(Kind::Collective) || is(Kind::SendRecv)) {
      operation_left(thread, scratch.operation, result, ticks);
    } else if constexpr (is(Kind::GroupEnd)) {
      group_ended(thread, result, ticks);
    } else if constexpr (is(Kind::Capture) && kGives<Field::Graph>) {
      capture_ended(thread, get<Field::Stream>(arguments...),
                    result == 0 ? get<Field::Graph>(arguments...) : 0);
    } else if constexpr (is(Kind::HostFunction)) {
      host_function_enqueued(scratch.host_function, result);
    } else if (result == 0) {
      after_success(frame, scratch, ticks, arguments...);
    }
  }

  template <class... Arguments>
  static void fetched_scalar(OpenFrame& frame, const Scratch& scratch, uint64_t ticks,
                             Arguments... arguments) noexcept {
    ThreadState& thread = *frame.thread;
    const CopyToHost copy = {get<Field::Destination>(arguments...), get<Field::Bytes>(arguments...),
                             get<Field::Stream>(arguments...)};
    if constexpr (kHas<Field::Stream>) {
      thread.scalars.count = scratch.scalars_pending ? thread.scalars.count : 0;
      scalar_pending(thread, copy, frame);
    } else {
      read_scalar(thread, copy, frame.stack, ticks);
    }
  }

  template <class... Arguments>
  static void after_success(OpenFrame& frame, Scratch& scratch, uint64_t ticks,
                            Arguments... arguments) noexcept {
    ThreadState& thread = *frame.thread;
    if constexpr (may_fetch()) {
      if (fetches_scalar(arguments...)) {
        fetched_scalar(frame, scratch, ticks, arguments...);
      }
    } else if constexpr (synchronizes()) {
      if (scratch.scalars_pending) {
        const uint64_t stream = get<Field::Stream>(arguments...);
        read_pending_scalars(thread, kHas<Field::Stream> ? &stream : nullptr, ticks);
      }
    }
    if constexpr (may_send()) {
      if (sends_batch(thread, arguments...)) {
        record_batch(thread, get<Field::Source>(arguments...), get<Field::Bytes>(arguments...),
                     frame.stack, ticks);
      }
    }
    if constexpr (is(Kind::Alloc)) {
      if (const uint64_t address = memory(arguments...)) {
        if constexpr (kHostMemory<kCall> != HostMemory::kOther) {
          if (is_to_be_avoided(arguments...)) {
            avoid_memory(address, bytes(arguments...));
          }
        }
        allocated(thread, kCall, address, bytes(arguments...), get<Field::Stream>(arguments...),
                  frame.stack, frame.ticks);
      }
    } else if constexpr (is(Kind::GroupStart)) {
      group_started(thread, frame.stack);
    } else if constexpr (is(Kind::MemoryInfo)) {
      memory_asked(thread, get<Field::Free>(arguments...), get<Field::Total>(arguments...), ticks);
    } else if constexpr (waits() && (kHas<Field::Stream> || kHas<Field::Event>)) {
      mark_completed(scratch.mark, ticks);
    } else if constexpr (is(Kind::Sync) && !kHas<Field::Context>) {
      device_completed(thread, frame.ticks, ticks);
    } else if constexpr (is(Kind::Capture)) {
      capture_began(thread, get<Field::Stream>(arguments...));
    } else if constexpr (is(Kind::Record) && kHas<Field::Stream>) {
      event_recorded(get<Field::Event>(arguments...), scratch.mark);
    } else if constexpr (is(Kind::Wait) && kHas<Field::Event> && kHas<Field::Stream>) {
      stream_waits(thread, get<Field::Stream>(arguments...), get<Field::Event>(arguments...));
    } else if constexpr (is(Kind::Create) && kHas<Field::GraphExec> && kHas<Field::Graph>) {
      graph_instantiated(thread, get<Field::GraphExec>(arguments...),
                         get<Field::Graph>(arguments...));
    } else if constexpr (is(Kind::Create) && kGives<Field::Stream>) {
      stream_created(thread, get<Field::Stream>(arguments...), frame.stack, ticks);
    } else if constexpr (is(Kind::GraphLaunch)) {
      graph_launched(thread, get<Field::GraphExec>(arguments...), get<Field::Stream>(arguments...),
                     frame.ticks, ticks);
    }
  }
};

}  // namespace traintrace
