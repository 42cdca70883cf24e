// Ranges and marks of NVTX and of the job's own markers, as they are called.  Where recording has
// not begun, what is open is kept (early_ranges.h).
#pragma once

#include <cstdint>

#include "interpose/nvtx/range_names.h"
#include "interpose/record/thread.h"

namespace traintrace {

// What NVTX's attributes hold beside the message.
struct RangeExtras {
  const Registered* category_name = nullptr;  // of the number below, if the job named it
  uint32_t category = 0;                      // 0: none
  int32_t payload_type = 0;                   // nvtxPayloadType_t; 0: none
  uint64_t payload = 0;
};

// `domain`: null is the default one.
void range_pushed(const Registered* domain, const RangeName& name,
                  const RangeExtras& extras = {}) noexcept;
void range_popped(const Registered* domain) noexcept;
// `handle` is what ends it, maybe on another thread.
void range_started(const Registered* domain, const RangeName& name, uint64_t handle,
                   const RangeExtras& extras = {}) noexcept;
void range_ended(uint64_t handle) noexcept;
void range_marked(const Registered* domain, const RangeName& name,
                  const RangeExtras& extras = {}) noexcept;

// The same as the job's own markers say it (markers.cc).
void marker_pushed(const RangeName& name) noexcept;
void marker_popped() noexcept;
// The innermost one of that name, whatever is open within it: generators end their ranges in any
// order.
void marker_ended(const RangeName& name) noexcept;
void marker_marked(const RangeName& name) noexcept;
void step_begun(int64_t number) noexcept;
// `text` is cut to kMostRangeName bytes.
void note_made(const RangeName& key, const char* text) noexcept;

// The records of these, and what is open.  The thread is inside the tracer.
void record_push(ThreadState& thread, const Registered* domain, uint32_t domain_number,
                 const RangeName& name, uint64_t ticks) noexcept;
void record_step(ThreadState& thread, int64_t number, uint64_t ticks) noexcept;
void record_note(ThreadState& thread, const RangeName& key, const char* text,
                 uint64_t ticks) noexcept;
// What notes of that key have as OpenRange::domain.
inline uint32_t note_domain(const RangeName& key) noexcept {
  return format::kNoteDomain | static_cast<uint32_t>(key.hash >> 34);
}

}  // namespace traintrace
