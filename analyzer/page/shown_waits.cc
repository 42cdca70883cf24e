#include "analyzer/page/shown_waits.h"

#include "analyzer/model/waiting/stalls.h"

namespace traintrace {

ShownWaits shown_waits(const Run& run, const Finding* leading) {
  const bool undecided = leading != nullptr && leading->code == "run.in-progress" &&
                         leading->certainty == Certainty::kPossible;
  ShownWaits shown;
  shown.waits = run.waits.waits;
  if (undecided) {
    shown.waits.insert(shown.waits.end(), run.waits.within_limits.begin(),
                       run.waits.within_limits.end());
  }
  shown.stalls = find_stalls(run, undecided ? HostWait::kAtMost : HostWait::kShown);
  shown.of_verdict = undecided || (leading != nullptr && leading->severity != Severity::kInfo);
  return shown;
}

}  // namespace traintrace
