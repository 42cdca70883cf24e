// Ranges and marks of NVTX, as they are called.  Where recording has not begun, nothing is kept.
#pragma once

#include <cstdint>

#include "interpose/range_names.h"

namespace traintrace {

// `domain`: null is the default one.
void range_pushed(const Registered* domain, const RangeName& name) noexcept;
void range_popped(const Registered* domain) noexcept;
// `handle` is what ends it, maybe on another thread.
void range_started(const Registered* domain, const RangeName& name, uint64_t handle) noexcept;
void range_ended(uint64_t handle) noexcept;
void range_marked(const Registered* domain, const RangeName& name) noexcept;

// The same as the job's own markers say it (markers.cc).
void marker_pushed(const RangeName& name) noexcept;
void marker_popped() noexcept;
void marker_marked(const RangeName& name) noexcept;
void step_begun(int64_t number) noexcept;
// `text` is cut to kMostRangeName bytes.
void note_made(const RangeName& key, const char* text) noexcept;

}  // namespace traintrace
