// What sites record of their GPUs anyway, as telemetry files (docs/telemetry.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

// All give the text of a telemetry file.  An error: the first line that is not as it should be.
// `host`: what the log itself does not say; empty: not said either.

// `nvidia-smi --query-gpu=timestamp,uuid,.. --format=csv -l 1`, with or without units.  Its times
// are in the time zone of this process (TZ).  A last line without its end is left out.
Result<std::string> telemetry_of_nvidia_smi(std::string_view text, const std::string& file,
                                            const std::string& host);

// Xid lines of `dmesg --time-format=iso` or `journalctl -k -o short-iso`, also among others.
Result<std::string> telemetry_of_kernel_log(std::string_view text, const std::string& file,
                                            const std::string& host);

// `dcgmi dmon -e ..` after `dcgmi discovery -l`, which says what the numbers of the GPUs mean,
// with an ISO time before each line of dmon: it prints none itself.  A last line without its end is
// left out.
Result<std::string> telemetry_of_dcgmi_dmon(std::string_view text, const std::string& file,
                                            const std::string& host);

// The answer to a range query of Prometheus for metrics of dcgm-exporter: {"status":"success",
// "data":{"resultType":"matrix",..}}.  One file for each host that it is about and each 64 GPUs.
// An error's offset is the byte at which it is no JSON, else the message says which series.
Result<std::vector<std::string>> telemetry_of_prometheus(std::string_view text,
                                                         const std::string& file,
                                                         const std::string& host);

}  // namespace traintrace
