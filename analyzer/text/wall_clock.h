// When something happened by the clock on the wall, to be held against other logs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace traintrace {

// Of times of the epoch those that a clock can have said: files of other tools may begin at 0.
bool is_wall_clock(int64_t epoch_ns);
std::string utc_text(int64_t epoch_ns);   // "14:02:11.755 UTC"
std::string date_text(int64_t epoch_ns);  // "2026-11-28 14:02:11 UTC"

// A sentence in which moments of a run that began at `start` have both:
// "at +1.755 s" -> "at +1.755 s (14:02:11.755 UTC)".
std::string with_wall_clock(std::string_view sentence, int64_t start);

}  // namespace traintrace
