// What `traintrace telemetry` does until the job is over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace traintrace {

struct TelemetryOptions {
  std::string folder;
  int64_t interval_ns = 0;
  int64_t linger_ns = 0;  // after the last recorded process has ended
  bool nvlink = false;
  uint64_t most_bytes = 0;  // of one file; there are two at most
  std::string prometheus;   // empty: nothing is written for it
  // Codes of findings for which there are new reasons, each second until it was true; none: there
  // is no reason.  `told` gets those of faults that last that were found since.  Empty: nobody
  // wants to know.
  std::function<bool(const std::vector<std::string>& codes, std::vector<std::string>& told)> alert;
  std::function<void(const std::vector<std::string>& codes)> last_alert;  // the job is over
};

// Returns once the job in the folder has ended, or SIGTERM, SIGINT or SIGHUP came: 0.  2: NVML
// cannot be used, or nothing can be written.  Before this is called there must be no threads.
// `tell`: a line for people.
int record_telemetry(const TelemetryOptions& options,
                     const std::function<void(const std::string&)>& tell);

}  // namespace traintrace
