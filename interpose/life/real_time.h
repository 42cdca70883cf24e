#pragma once

#include <sched.h>

namespace traintrace {

// A thread of a job that runs in real time (SCHED_FIFO, SCHED_RR) gives that to all it starts.
// What the tracer does beside the job must not take a processor from it.
inline void leave_real_time() noexcept {
  constexpr sched_param kUsual = {};
  const int policy = sched_getscheduler(0);
  if (policy == SCHED_FIFO || policy == SCHED_RR) {
    sched_setscheduler(0, SCHED_OTHER, &kUsual);
  }
}

}  // namespace traintrace
