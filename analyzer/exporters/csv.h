// Every call and every piece of a GPU's work as a row, for tables and data frames.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "analyzer/exporters/exported_process.h"
#include "analyzer/model/divergence/narrow_divergences.h"

namespace traintrace {

using WriteText = std::function<void(std::string_view)>;

// The columns are described in docs/commands.md.  Process by process: its calls in the order of
// their starts, then what its GPUs did, the same.  A field that is not known is empty.
void write_csv(std::span<const ExportedProcess> processes, const ReadEvents& read_events,
               const WriteText& write);

}  // namespace traintrace
