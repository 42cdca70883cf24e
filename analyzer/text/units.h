// Numbers as people read them.  What programs read keeps its nanoseconds and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace traintrace {

std::string bytes_text(uint64_t bytes);    // "320 MiB", "2.19 GiB", "512 bytes"
std::string duration_text(int64_t ns);     // "7.62 s", "4.2 ms", "1.8 us", "12 min 4 s"
std::string count_text(uint64_t number);   // "2,695"
std::string percent_text(double percent);  // "48 %", "4.5 %"

// A sentence in which sizes have units: "cudaMalloc of 335544320 bytes" -> "cudaMalloc of 320 MiB".
std::string for_people(std::string_view sentence);

}  // namespace traintrace
