// What the reader knows about the machine it runs on, to compare with what a trace says.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "format/trace_format.h"

namespace traintrace {

std::optional<std::array<uint64_t, 2>> boot_id();

// Whether the process of that header runs right now.  Nothing: it lives, or lived, where this
// process cannot look.
std::optional<bool> is_running(const format::FileHeader& header);

}  // namespace traintrace
