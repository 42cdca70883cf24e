// Microseconds as text, exactly: as a double, an absolute time is off by a quarter of one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace traintrace {

// "1694128201545123", "-0.5", "123.456" or "1.5e3" microseconds in ns; what is below 1 ns is cut
// off.  Nothing for other text, and for more than 63 years.
std::optional<int64_t> ns_of_microseconds(std::string_view text);

}  // namespace traintrace
