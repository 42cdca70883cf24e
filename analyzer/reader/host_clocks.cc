#include "analyzer/reader/host_clocks.h"

#include <cinttypes>
#include <cstdio>

#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/trace_clock.h"

namespace traintrace {

std::string boot_text(const uint64_t (&boot_id)[2]) {
  if (boot_id[0] == 0 && boot_id[1] == 0) {
    return "";
  }
  char text[33] = {};
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, boot_id[0], boot_id[1]);
  return text;
}

HostClocks::HostClocks(std::span<const std::string> paths) {
  std::map<std::string, uint64_t> newest;
  for (const std::string& path : paths) {
    const Result<format::FileHeader> header = read_trace_header(path);
    const std::string boot = header ? boot_text(header->boot_id) : "";
    if (boot.empty()) {
      continue;
    }
    boots_[path] = boot;
    const uint64_t heartbeat = header->anchor_boottime_ns[1 + (header->anchor_index & 1)];
    const TimeNs booted = TraceClock(*header).booted();
    if (booted != 0 && heartbeat > newest[boot]) {
      newest[boot] = heartbeat;
      booted_[boot] = booted;
    }
  }
}

TimeNs HostClocks::booted(const std::string& path) const {
  const auto boot = boots_.find(path);
  const auto found = boot == boots_.end() ? booted_.end() : booted_.find(boot->second);
  return found == booted_.end() ? 0 : found->second;
}

}  // namespace traintrace
