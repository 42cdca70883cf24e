// The events of single processes, on demand: those of all at once may be gigabytes.
#pragma once

#include <memory>

#include "analyzer/reader/read_trace.h"

namespace traintrace {

class EventReader {
 public:
  // What is left out of what is read; the rest of the options are of the tables (see read).
  explicit EventReader(const ReadOptions& options = {})
      : reports_(options.reports), tensor_blocks_(options.tensor_blocks) {}

  // Those of the last call are gone with the next one.  Null: they cannot be had.  The calls of the
  // tables have the same numbers in it, and others follow them.
  const ProcessTrace* read(const ProcessTrace& tables) {
    if (!tables.events.empty()) {
      return &tables;
    }
    Result<ProcessTrace> trace = read_trace(tables.source, {.events = true,
                                                            .reports = reports_,
                                                            .tensor_blocks = tensor_blocks_,
                                                            .booted = tables.booted,
                                                            .first_calls = tables.calls});
    trace_ = trace ? std::make_unique<ProcessTrace>(std::move(*trace)) : nullptr;
    return trace_.get();
  }

 private:
  const bool reports_;
  const bool tensor_blocks_;
  std::unique_ptr<ProcessTrace> trace_;
};

}  // namespace traintrace
