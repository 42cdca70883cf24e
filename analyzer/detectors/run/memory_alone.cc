#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/run/summary.h"
#include "analyzer/memory/holders/held_at.h"
#include "analyzer/memory/holders/who_held.h"

namespace traintrace {
namespace {

bool is_of_memory_alone(const Run& run) {
  return !run.processes.empty() &&
         std::all_of(run.processes.begin(), run.processes.end(), [](const ProcessTrace& trace) {
           const auto source = trace.facts.find("source");
           return source != trace.facts.end() &&
                  (source->second == "torch-snapshot" || source->second == "rmm-csv");
         });
}

}  // namespace

std::optional<Finding> memory_alone(const Run& run) {
  if (!is_of_memory_alone(run)) {
    return std::nullopt;
  }
  Finding finding;
  finding.code = "run.in-progress";
  finding.certainty = Certainty::kLikely;
  finding.title = "a record of memory alone, in which no allocation failed";
  const RankState* most = nullptr;
  OutOfMemoryText held;  // by it, at the end
  for (const RankState& state : run.ranks) {
    for (const TensorDeviceText& device : trace_of(run, state).tensor_devices) {
      if (most == nullptr || device.allocated > held.allocated) {
        most = &state;
        held = held_at(trace_of(run, state), static_cast<uint8_t>(device.device), state.last_seen);
        held.allocated = device.allocated;
        held.reserved = device.reserved;
      }
    }
  }
  if (most != nullptr) {
    finding.title += fmt::format(": rank {} had {} bytes in use, and held {} bytes",
                                 most->rank.value, held.allocated, held.reserved);
    finding.evidence = who_held(run, *most, held).lines;
  }
  return finding;
}

}  // namespace traintrace
