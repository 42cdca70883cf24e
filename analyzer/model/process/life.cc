#include "analyzer/model/process/life.h"

#include <algorithm>

#include "analyzer/model/process/launch_facts.h"

namespace traintrace {

Life life_of(const ProcessTrace& trace) {
  Life life;
  life.last_seen = last_sign_of_life(trace);
  if (trace.exit_kind != format::kNotExited) {
    life.ending = Ending::kExited;
    life.evidence = EndEvidence::kExitRecord;
    life.ended = trace.exited;
  } else if (trace.gone != 0) {
    life.ending = Ending::kGone;
    life.evidence = EndEvidence::kNoted;
    life.ended = std::max(trace.gone, life.last_seen);
  } else if (trace.running_now) {
    life.ending = *trace.running_now ? Ending::kRunning : Ending::kGone;
    life.evidence = *trace.running_now ? EndEvidence::kNone : EndEvidence::kKernel;
    life.halt = trace.halt;
  }
  return life;
}

}  // namespace traintrace
