// Turns checks on where they can be had, and puts their work on the job's streams.
#pragma once

#include "interpose/record/thread.h"

namespace traintrace {

// `against`: why there are none (own_gpu.h); null: they are tried.
void checks_decide(ThreadState& thread, const char* against) noexcept;

}  // namespace traintrace
