// Traces for Perfetto's viewer: packets of its public protocol
// (perfetto/trace/track_event/*.proto), of which few fields are needed, so that they are written by
// hand.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// What the viewer shows of an event that is chosen: name, text.
using PerfettoNotes = std::vector<std::pair<std::string_view, std::string>>;

struct PerfettoSlice {
  static constexpr TimeNs kOpen = std::numeric_limits<TimeNs>::max();

  TimeNs start;
  TimeNs end;  // kOpen: as far as is known, it did not end
  std::string name;
  std::vector<uint64_t>
      begins;         // arrows that lead from here: each has a number, unique in the trace
  uint64_t ends = 0;  // the arrow that leads here; 0: none
  PerfettoNotes notes = {};
};

class PerfettoWriter {
 public:
  PerfettoWriter();

  // Tracks are known by the number that is returned; `parent` 0: none.
  uint64_t process(std::string_view name, int pid);
  uint64_t track(std::string_view name, uint64_t parent);
  uint64_t counter_of_bytes(std::string_view name, uint64_t parent);
  uint64_t counter(std::string_view name, uint64_t parent);  // without a unit

  void count(uint64_t counter, TimeNs time, int64_t value);
  // `value` is finite: the viewer draws nothing else.
  void count_real(uint64_t counter, TimeNs time, double value);
  void instant(uint64_t track, TimeNs time, std::string_view name, const PerfettoNotes& notes = {});
  // All that a track shows.  On one track slices must nest: those that do not go to another beside
  // it.
  void slices(std::string_view track, uint64_t parent, std::vector<PerfettoSlice> slices);
  // Numbers of arrows that nobody else has, the first of `count`.
  uint64_t arrows(size_t count) { return std::exchange(arrows_, arrows_ + count); }

  std::string finish() { return std::move(out_); }

 private:
  struct Lane {
    uint64_t track = 0;
    std::vector<TimeNs> ends;  // of the slices that are open, innermost last
  };

  uint64_t describe(std::string_view name, uint64_t parent, uint32_t field,
                    const std::string& about);
  void event(uint64_t track, TimeNs time, uint64_t type, const std::string& more,
             const std::string& interned = {});
  void begin(uint64_t track, const PerfettoSlice& slice);
  void close(Lane& lane, TimeNs until);

  std::string out_;
  uint64_t tracks_ = 0;
  uint64_t arrows_ = 1;
  std::set<int> pids_;
  int beyond_pids_ = 1 << 23;  // for processes whose pid is taken, or not known
  std::unordered_map<std::string, uint64_t> names_;
};

}  // namespace traintrace
