// What recorded calls say of the order of streams.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/event_waits.h"
#include "analyzer/timeline/recorded/legacy_stream.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class RecordedStreams {
 public:
  // `trace` outlives it; `base_ns` is time 0 of its timeline.
  RecordedStreams(const ProcessTrace& trace, TimeNs base_ns) : trace_(trace), base_ns_(base_ns) {}

  // A correlation that something on the GPU has; all of them before the first launch.
  void has_work(uint64_t correlation) { with_work_.insert(correlation); }
  // A call of any kind, in the order of their times.  `in_nccl`: NCCL made it.
  void called(const CallRecord& event, bool in_nccl);
  // By the innermost call that is open.
  void launched(const CallRecord& event, uint64_t correlation);
  // What that call, if it waits for an event, does so for: correlations.  Empty: it does not, or
  // that is not known.
  std::vector<uint64_t> awaited_by(const CallRecord& event) const;
  // `timeline`: with its work, by start.
  void finish(Timeline& timeline);

 private:
  EventWaits::Stream stream_of(const CallRecord& event) const;
  void note_legacy(const CallRecord& event);
  void note_wait(const CallRecord& event);

  const ProcessTrace& trace_;
  TimeNs base_ns_;
  std::unordered_set<uint64_t> with_work_;
  LegacyStream legacy_;
  EventWaits waits_;
};

}  // namespace traintrace
