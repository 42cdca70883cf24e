// Reports of PyTorch's allocator that stay in the file of full recording and are read from there
// each time: they may be far more than all that is in use, and most readers need none of them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/sections/segments.h"
#include "analyzer/reader/trace_clock.h"

namespace traintrace {

class StoredReports {
 public:
  // How the records of one call become its values.
  struct Form {
    uint16_t id = 0;     // in the file
    uint32_t call = 0;   // index in ProcessTrace::calls
    uint8_t values = 0;  // as many as it has fields
    std::vector<uint8_t> places;
  };
  // One that holds reports.
  struct Place {
    ChunkPlace chunk;
    TimeNs first = 0;  // when the first of them was made
  };

  // `places` in the order in which the chunks were begun.
  StoredReports(SegmentReader segments, const TraceClock& clock, std::vector<Form> forms,
                std::vector<Place> places, uint64_t count);

  // The same, told by a clock that is ahead by so much.
  StoredReports moved_by(TimeNs by) const;

  uint64_t count() const { return count_; }
  TimeNs first() const { return places_.front().first; }

 private:
  friend class ReportCursor;
  const Form* form(uint16_t id) const;  // null: no report

  SegmentReader segments_;
  TraceClock clock_;
  std::vector<Form> forms_;
  std::vector<Place> places_;  // by `first`; at least one
  uint64_t count_;
};

// All of them, by time over all threads.  Of damaged files in some order.
class ReportCursor {
 public:
  explicit ReportCursor(const StoredReports* reports);  // null: there are none

  bool at_end() const { return !current_; }
  const CallRecord& record() const { return current_->record; }
  std::span<const uint64_t> values() const { return current_->values; }
  void next();

 private:
  struct OpenChunk {
    std::vector<uint64_t> words;
    size_t at = 0;         // behind the report it stands at
    uint64_t ordinal = 0;  // decides where times are equal
    CallRecord record;
    std::vector<uint64_t> values;
  };
  static bool is_later(const OpenChunk& a, const OpenChunk& b) {
    return std::pair(a.record.enter, a.ordinal) > std::pair(b.record.enter, b.ordinal);
  }
  bool advance(OpenChunk& chunk) const;  // false: it has no more of them
  void open(const ChunkPlace& place);
  bool may_be_next(TimeNs first) const;
  void choose();

  const StoredReports* reports_;
  std::optional<SegmentReader> segments_;
  size_t next_ = 0;  // in places_: not opened yet
  std::optional<OpenChunk> current_;
  std::vector<OpenChunk> others_;  // heap, the earliest first
};

// A copy that was made without its events may have them all the same.
inline bool has_events(const ProcessTrace& trace) {
  return !trace.events.empty() || trace.stored_reports != nullptr;
}
inline uint64_t event_count(const ProcessTrace& trace) {
  return trace.events.size() + (trace.stored_reports ? trace.stored_reports->count() : 0);
}
// 0: there is none.
TimeNs first_event(const ProcessTrace& trace);

// All events by time, whether they are in the trace or stayed in its file.
template <class See>
void each_event(const ProcessTrace& trace, See see) {
  ReportCursor reports(trace.stored_reports.get());
  for (const CallRecord& event : trace.events) {
    for (; !reports.at_end() && reports.record().enter < event.enter; reports.next()) {
      see(reports.record(), reports.values());
    }
    see(event, trace.values_of(event));
  }
  for (; !reports.at_end(); reports.next()) {
    see(reports.record(), reports.values());
  }
}

}  // namespace traintrace
