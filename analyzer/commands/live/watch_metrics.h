// What `attach --watch --prometheus=FILE` keeps in that file: each rank of this host while the job
// runs, and then the verdict.
#pragma once

#include <sys/types.h>

#include <string>

#include "analyzer/live/job_now.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/top/job_view.h"

namespace traintrace {

// Metrics traintrace_rank_.. with the labels run, rank and pid: no timestamps, base units.
// `host`: the ranks of this one; those of others are for a watch there.
std::string rank_metrics(const JobView& view, const std::string& host);

// traintrace_verdict, one for each finding that is an error or a warning.  `artifact`: path of the
// tar file; empty: there is none.
std::string verdict_metrics(const FindingsReport& report, const std::string& artifact);

// A process of its own that writes the ranks' metrics until it is told to end: a trace that it
// stumbles over costs the metrics and not the watch.  It ends, and removes the file, with the
// process that started it.
class WatchMetrics {
 public:
  // `path` empty: does nothing.  To be made before there are threads.
  WatchMetrics(std::string path, const JobOptions& options, TimeNs hang_after);
  ~WatchMetrics() { stop(); }
  WatchMetrics(const WatchMetrics&) = delete;
  WatchMetrics& operator=(const WatchMetrics&) = delete;

  // The job hangs or has ended: from now on the file is that of the verdict, if it is an error, and
  // gone if not.
  void stop();

 private:
  std::string path_;
  pid_t writer_ = -1;
};

// Of the file that WatchMetrics has stopped to write.
void write_verdict_metrics(const std::string& path, const FindingsReport& report,
                           const std::string& artifact);

}  // namespace traintrace
