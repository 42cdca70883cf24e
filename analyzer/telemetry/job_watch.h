// Whether the job that records into a folder is over, as far as it runs on this machine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "analyzer/reader/process_trace.h"
#include "format/trace_format.h"

namespace traintrace {

class JobWatch {
 public:
  // Traces of processes that have ended by now are of jobs before.
  explicit JobWatch(std::string folder);

  // Looks again.  True: processes of this machine were recorded since the start, and all of them
  // have ended.
  bool look();
  bool has_begun() const { return begun_; }

 private:
  // Nothing: it is of another host, cannot be read, or nothing was recorded there yet.
  static std::optional<bool> is_over(const std::string& path);

  std::string folder_;
  std::map<std::string, bool> over_;  // by path; what has ended stays so
  bool begun_ = false;
};

// Whether the process has ended; nothing: it was of another machine.  `now`: ns since the epoch.
std::optional<bool> has_ended(const format::FileHeader& header, TimeNs now);

}  // namespace traintrace
