// One clock for all processes of a machine.  Each trace tells its times by CLOCK_REALTIME as it
// stood at its own newest heartbeat: where somebody set that clock, processes that were silent
// before and others that went on would be apart by as much, on paper.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "format/trace_format.h"

namespace traintrace {

// 32 hexadecimal digits; empty: not recorded.
std::string boot_text(const uint64_t (&boot_id)[2]);

// By which CLOCK_BOOTTIME a process told its times: a time namespace may have moved its own.
enum class BoottimeOf : uint8_t { kMachine, kProcess };

BoottimeOf boottime_of(const format::FileHeader& header);
BoottimeOf boottime_of(const ProcessTrace& trace);
// What the second of these goes by.
void note_boottime(BoottimeOf boottime, ProcessTrace& trace);

// When a process's machine was started, as it tells that: times and boot as in ProcessTrace.
struct BootTold {
  std::string boot;
  BoottimeOf by = BoottimeOf::kMachine;
  TimeNs booted_at_first = 0, booted = 0;
};

// For each process a number that all have whose CLOCK_BOOTTIME is known to be the same, and no
// other: of one machine, either told by the machine's own or agreeing on when it was started, to
// within kClockSkewTolerated.  It is their place among those numbers, from 0 on by first mention.
std::vector<size_t> one_clock(std::span<const BootTold> processes);

class HostClocks {
 public:
  // Of the native traces among these files.
  explicit HostClocks(std::span<const std::string> paths);

  // When the machine of that trace was started, by its clock as it stood at the newest heartbeat of
  // all that are on one clock with it; 0: not known.
  TimeNs booted(const std::string& path) const;

 private:
  std::map<std::string, TimeNs> booted_;  // path -> when
};

}  // namespace traintrace
