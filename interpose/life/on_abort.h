// TRAINTRACE_ON_ABORT=snapshot: who aborts a communicator is about to be killed with all the other
// ranks, and what they were doing would be lost.
#pragma once

#include "interpose/life/settings.h"
#include "interpose/record/thread.h"

namespace traintrace {

// At arming: finds the program, since later the job may have changed its folder and PATH.
void on_abort_prepare(ThreadState& thread, const Settings& settings) noexcept;

// At the entry of an abort, or once an asynchronous error is seen: starts `traintrace attach` as a
// process of its own, once in this process, and waits until it is done, 5 s at most.
void on_abort() noexcept;

}  // namespace traintrace
