// Packs the files that a process left, or still writes, into one (format/pack.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// How much of the ring of events is packed; tables always are.
struct RingPart {
  // Records up to so long before the newest; none: all of them.  0: no events.
  std::optional<TimeNs> last;
};

struct Packed {
  std::string path;
  std::string host;
  uint64_t bytes = 0;
};

// `trace`: a trace on this host.  Into `folder`, under another name until it is whole.  An error:
// what cannot be read, or written (`fatal`); `not_begun` as for reading.
Result<Packed> pack_trace(const std::string& trace, const std::string& folder,
                          const RingPart& ring);

}  // namespace traintrace
