// What can be said without one of these is told, though no longer for certain (internal_error.h).
#include "analyzer/isolation/stage.h"
#include "analyzer/judge/stages.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/late_hosts.h"

namespace traintrace {

void match(Run& run, const ReadEvents& read_events) {
  run_stage("model progress", [&] { infer_progress(run); });
  run_stage("model late hosts", [&] { find_late_hosts(run, read_events); });
  run_stage("model divergences", [&] { run.divergences = find_divergences(run); });
  if (read_events) {
    run_stage("model range of divergences", [&] { narrow_divergences(run, read_events); });
  }
}

}  // namespace traintrace
