// Logs of RMM's logging_resource_adaptor, as a process of which only its memory is known.  They
// have no dates, no devices and no stacks.
#pragma once

#include <string>

#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// By the first bytes of a file.
bool looks_like_rmm_csv(std::string_view head);

// `written`: when its last line was, as far as known.  Lines that say nothing clear are errors of
// the trace.
Result<ProcessTrace> rmm_csv_trace(std::string_view text, const std::string& file, TimeNs written);
Result<ProcessTrace> read_rmm_csv(const std::string& path);

}  // namespace traintrace
