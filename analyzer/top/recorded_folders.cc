#include "analyzer/top/recorded_folders.h"

#include "analyzer/live/job_now.h"

namespace traintrace {

Result<std::vector<std::string>> recorded_folders() {
  JobOptions options;
  options.all = true;
  const Result<Job> job = Job::find(options);
  if (job && !job->inputs().empty()) {
    return job->inputs();
  }
  ReadError none;
  none.message =
      "no process of this machine that you may look at is being recorded; record one: traintrace "
      "run -- PROGRAM";
  return none;
}

}  // namespace traintrace
