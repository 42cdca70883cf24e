// Calls of CUDA that a process was inside of when it was last heard of.
#pragma once

#include <optional>
#include <string>

#include "analyzer/model/run.h"

namespace traintrace {

struct OpenCall {
  std::string call;
  TimeNs since = 0;
  uint32_t stack = 0;
  bool implicit = false;  // it waits for more than the stream that it was told of
};

// The earliest that waits for the device, outside of NCCL, of the threads that may work for the
// rank.
std::optional<OpenCall> open_cuda_call(const Run& run, const RankState& state);

// A synchronization with an event: work of its stream may lie after it.
bool waits_for_event(const CallSchema& schema);

// A thread polled CUDA at the end, which is `until`, and did nothing else.
bool is_polling(const ProcessTrace& trace, TimeNs until);
// A thread has polled CUDA and done nothing else since then; 0: none has.  Needs the events.
TimeNs polling_since(const ProcessTrace& trace, TimeNs until);

// Since when a thread was inside a call that waits, or polled, at `time`; 0: none was.  Needs the
// events.
TimeNs waiting_at(const ProcessTrace& trace, TimeNs time);

}  // namespace traintrace
