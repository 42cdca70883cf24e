// What sites record of their GPUs anyway, as telemetry files (docs/telemetry.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/reader/result.h"

namespace traintrace {

// Later times than in 2100 are damage, and in ns could overflow.
inline constexpr int64_t kMostLogSeconds = 4'102'444'800;

// Both give the text of a telemetry file.  An error: the first line that is not as it should be.
// `host`: what the log itself does not say; empty: not said either.

// `nvidia-smi --query-gpu=timestamp,uuid,.. --format=csv -l 1`, with or without units.  Its times
// are in the time zone of this process (TZ).  A last line without its end is left out.
Result<std::string> telemetry_of_nvidia_smi(std::string_view text, const std::string& file,
                                            const std::string& host);

// Xid lines of `dmesg --time-format=iso` or `journalctl -k -o short-iso`, also among others.
Result<std::string> telemetry_of_kernel_log(std::string_view text, const std::string& file,
                                            const std::string& host);

}  // namespace traintrace
