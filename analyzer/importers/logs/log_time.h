// Times as logs have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace traintrace {

// Later times than in 2100 are damage, and in ns could overflow.
inline constexpr int64_t kMostLogSeconds = 4'102'444'800;

// "2026-11-26T05:10:00,123456+00:00" from the beginning of the text, which it is taken from: ns
// since the epoch.  Nothing: there is none, and what is left of the text is of no use.
std::optional<int64_t> take_iso_time(std::string_view& text);

// The same of "[Wed Apr  3 02:39:11 2024]", as dmesg -T writes it: in this machine's zone.
std::optional<int64_t> take_dmesg_time(std::string_view& text);

}  // namespace traintrace
