// Programs that the CUDA runtime is linked into: only the calls that it makes to the driver are
// seen.
#include <fmt/format.h>

#include <map>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/process/launch_facts.h"

namespace traintrace {

std::vector<Finding> find_static_runtimes(const Run& run) {
  Ranks ranks;
  std::map<std::string, Ranks> chosen;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    const auto runtime = trace.facts.find("cuda-runtime");
    if (runtime == trace.facts.end() || runtime->second != "program") {
      continue;
    }
    const auto calls = trace.facts.find("setting.TRAINTRACE_CALLS");
    for (const Rank rank : ranks_of_process(run, i)) {
      insert(ranks, rank);
      if (calls != trace.facts.end() && calls->second != "*") {
        insert(chosen[calls->second], rank);
      }
    }
  }
  if (ranks.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.static-runtime", nullptr);
  finding.title = fmt::format(
      "the CUDA runtime is linked into the program of {}: its calls were recorded as the driver's",
      ranks_text(ranks));
  finding.values = {{"rank_count", static_cast<int64_t>(ranks.size())}};
  for (const auto& [patterns, those] : chosen) {
    finding.evidence.push_back(fmt::format(
        "{}: TRAINTRACE_CALLS={}: names of the runtime (cudaMalloc) match none of its calls",
        ranks_text(those), patterns));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.sides = {ranks};
  finding.advice =
      "nothing need be done: allocations, copies, launches and waits are all there, as cuMemAlloc "
      "for cudaMalloc; to see the runtime's own names, link with nvcc -cudart shared";
  return {finding};
}

}  // namespace traintrace
