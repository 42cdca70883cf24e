// Turns marks on where they can be had, and writes them.
#pragma once

#include "interpose/record/thread.h"

namespace traintrace {

// `against`: why there are none (own_gpu.h); null: they are tried.
void marks_decide(ThreadState& thread, const char* against) noexcept;

}  // namespace traintrace
