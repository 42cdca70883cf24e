// The events of single processes, on demand: those of all at once may be gigabytes.
#pragma once

#include <memory>

#include "analyzer/reader/read_trace.h"

namespace traintrace {

class EventReader {
 public:
  // Without `reports` those of PyTorch's allocator may stay in their file (ReadOptions).
  explicit EventReader(bool reports = true) : reports_(reports) {}

  // Those of the last call are gone with the next one.  Null: they cannot be had.  The calls of the
  // tables have the same numbers in it, and others follow them.
  const ProcessTrace* read(const ProcessTrace& tables) {
    if (!tables.events.empty()) {
      return &tables;
    }
    Result<ProcessTrace> trace = read_trace(tables.source, {.events = true,
                                                            .reports = reports_,
                                                            .booted = tables.booted,
                                                            .first_calls = tables.calls});
    trace_ = trace ? std::make_unique<ProcessTrace>(std::move(*trace)) : nullptr;
    return trace_.get();
  }

 private:
  const bool reports_;
  std::unique_ptr<ProcessTrace> trace_;
};

}  // namespace traintrace
