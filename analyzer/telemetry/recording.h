// What `traintrace telemetry` does until the job is over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace traintrace {

struct TelemetryOptions {
  std::string folder;
  int64_t interval_ns = 0;
  int64_t linger_ns = 0;  // after the last recorded process has ended
  bool nvlink = false;
  uint64_t most_bytes = 0;  // of one file; there are two at most
  std::string prometheus;   // empty: nothing is written for it
};

// Returns once the job in the folder has ended, or SIGTERM, SIGINT or SIGHUP came: 0.  2: NVML
// cannot be used, or nothing can be written.  Before this is called there must be no threads.
// `tell`: a line for people.
int record_telemetry(const TelemetryOptions& options,
                     const std::function<void(const std::string&)>& tell);

}  // namespace traintrace
