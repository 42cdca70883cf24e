// Memory as collapsed stacks, the input of flame graph tools: "outermost;..;innermost BYTES".
#pragma once

#include <span>
#include <string>

#include "analyzer/symbols/symbolizer.h"

namespace traintrace {

enum class CollapsedBytes : uint8_t {
  kLive,    // last
  kPeak,    // when each device had most in use
  kGrowth,  // per step
};

// Of all processes, each below a frame of its own, and there whose memory it is.
std::string collapsed_stacks(std::span<const ProcessTrace> processes, CollapsedBytes bytes,
                             Symbolizer& symbolizer);

// "rank 3", or host and process
std::string process_label(const ProcessTrace& trace);

}  // namespace traintrace
