// Ranges that were pushed, and steps and notes that were told, before recording began: it begins
// with the first call of CUDA or NCCL, and what that call is within would not be known.
#pragma once

#include "interpose/nvtx/range_names.h"
#include "interpose/record/thread.h"

namespace traintrace {

// Of the calling thread, while nothing is recorded.  `domain_number`: as OpenRange::domain has it.
// Further threads than 64, and further ranges than kMostOpenRanges, are not kept; of names 240
// bytes are.
void early_pushed(const Registered* domain, uint32_t domain_number, const RangeName& name) noexcept;
void early_popped(uint32_t domain_number) noexcept;
void early_step(int64_t number) noexcept;
void early_note(const RangeName& key, const char* text) noexcept;

// Has `thread`, the calling one, which records from now on, had any of these?
bool has_early_ranges() noexcept;
// Then they are recorded, with their own times, and open.
void record_early_ranges(ThreadState& thread) noexcept;

}  // namespace traintrace
