// One clock for all processes of a machine.  Each trace tells its times by CLOCK_REALTIME as it
// stood at its own newest heartbeat: where somebody set that clock, processes that were silent
// before and others that went on would be apart by as much, on paper.
#pragma once

#include <map>
#include <span>
#include <string>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// 32 hexadecimal digits; empty: not recorded.
std::string boot_text(const uint64_t (&boot_id)[2]);

class HostClocks {
 public:
  // Of the native traces among these files.
  explicit HostClocks(std::span<const std::string> paths);

  // When the machine of that trace was started, by its clock as it stood at the newest heartbeat of
  // all; 0: not known.
  TimeNs booted(const std::string& path) const;

 private:
  std::map<std::string, std::string> boots_;  // path -> boot
  std::map<std::string, TimeNs> booted_;      // boot -> when
};

}  // namespace traintrace
