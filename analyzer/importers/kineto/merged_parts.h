// Traces of several ranks in one file, as SGLang merges them (ProfileMerger): each event's "pid"
// has the rank's place before it, "[TP01-DP00-PP00] 4711".  Correlations and devices are of each
// rank's own trace.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace traintrace::kineto {

struct MergedPid {
  std::string_view part;  // "TP01-DP00-PP00"
  std::string_view pid;   // as it was
};
// Of a pid as it is written, in quotes; nothing: it is none of a merged trace.
std::optional<MergedPid> merged_pid(std::string_view token);

// The rank of each, in their order: PyTorch numbers them by pipeline stage, then within it; copies
// of the whole model (DP) come one after the other.
std::vector<int> ranks_of_parts(const std::vector<std::string>& parts);

}  // namespace traintrace::kineto
