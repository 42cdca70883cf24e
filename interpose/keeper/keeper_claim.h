// Who copies a trace: one at a time.  Two that write to the same file would leave it with a part of
// each one's view, and each would take away what the other still needs.
#pragma once

#include "format/trace_format.h"
#include "interpose/life/identity.h"
#include "interpose/tables/tables.h"

namespace traintrace {

// Whether the process that `keeper_pid` names still runs.  A thread of the recorded process copies
// as long as that process runs.
inline bool has_living_keeper(const format::FileHeader& memory) noexcept {
  const int32_t keeper = load(memory.keeper_pid);
  if (keeper == 0) {
    return false;
  }
  const uint64_t noted = keeper == memory.pid ? memory.start_time : load(memory.keeper_start_time);
  return is_running(keeper, noted ? noted : start_time_of(keeper));
}

// Makes the process `self` the keeper, where there is none or it is dead.  False: another one is.
inline bool claim_keeping(format::FileHeader& memory, int32_t self) noexcept {
  const int32_t keeper = load(memory.keeper_pid);
  return !has_living_keeper(memory) && exchange_if(memory.keeper_pid, keeper, self);
}

}  // namespace traintrace
