// The call lines of a dump.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "analyzer/reader/process_trace.h"
#include "analyzer/text/dump_printer.h"

namespace traintrace {

void print_events(const ProcessTrace& trace, const std::string& name, TimeNs start,
                  const DumpOptions& options, const std::function<void(std::string_view)>& write);

}  // namespace traintrace
