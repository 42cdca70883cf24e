// Which GPUs have a fault that lasts, while they are being read: a clock that is held down, a link
// that is degraded.  Whether that means anything for a job is not judged here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/telemetry/telemetry_file.h"

namespace traintrace {

class LastingFaults {
 public:
  // What is known of a device after a line at `time`.
  void read(int device, int64_t time, const LatestReadings& latest);
  // Codes of findings whose time has come to be looked for.  Each is given again later, and later
  // still, as long as a fault lasts that nobody was told.
  std::vector<std::string> due(int64_t time);
  // Whoever was to be told was: of what lasts now nothing more is said.
  void told(const std::string& code);

 private:
  struct Fault {
    bool lasts = false;
    bool is_told = false;
    int64_t next = 0;  // when it is due
    int64_t pause = 0;

    void set(bool now, int64_t time);
  };
  struct Device {
    LatestReadings latest;
    int64_t time = 0;
    int64_t window = 0;   // began then; 0: none has
    int64_t held_ns = 0;  // within it
    int64_t narrow_since = 0;
    int64_t replays = -1, recoveries = -1;  // at first
    Fault clock, link;
  };

  static void read_clock(Device& device, int64_t time, const LatestReadings& latest);
  static void read_link(Device& device, int64_t time, const LatestReadings& latest);

  std::map<int, Device> devices_;
};

}  // namespace traintrace
