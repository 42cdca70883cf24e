// From CUPTI's activity records to ours.
#pragma once

#include <cstdint>

#include "interpose/record/thread.h"

namespace traintrace {

// `record` is whole; kinds that are not asked for are passed over.
void write_gpu_record(ThreadState& thread, const void* record) noexcept;

}  // namespace traintrace
