// GPUs that other processes may use at the same time, through MPS: what is said of such a GPU as a
// whole is not its rank's alone.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/process/launch_facts.h"

namespace traintrace {
namespace {

// How the tracer says it of each GPU that the process sees: "gpu-0-mps on".
bool is_client_of_mps(const ProcessTrace& trace) {
  return std::any_of(trace.facts.begin(), trace.facts.end(), [](const auto& fact) {
    return fact.first.starts_with("gpu-") && fact.first.ends_with("-mps") && fact.second == "on";
  });
}

// What bounds a client, where MPS is in use.
constexpr const char* kLimits[] = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                                   "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"};

}  // namespace

std::vector<Finding> find_shared_gpus(const Run& run) {
  Ranks clients;
  bool has_timeline = false;
  std::map<std::string, Ranks> limited;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    if (!is_client_of_mps(trace)) {
      continue;
    }
    const auto timeline = trace.facts.find("gpu-timeline");
    has_timeline = has_timeline || (timeline != trace.facts.end() && timeline->second == "cupti");
    for (const Rank rank : ranks_of_process(run, i)) {
      insert(clients, rank);
      for (const char* const limit : kLimits) {
        if (const std::string_view value = environment(trace, limit); !value.empty()) {
          insert(limited[fmt::format("{}={}", limit, value)], rank);
        }
      }
    }
  }
  if (clients.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.shared-gpu", nullptr);
  const bool one = clients.size() == 1;
  finding.title = fmt::format("{} {} through MPS: other processes may use {} at the same time",
                              ranks_text(clients), one ? "uses its GPU" : "use their GPUs",
                              one ? "it" : "them");
  finding.values = {{"rank_count", static_cast<int64_t>(clients.size())}};
  for (const auto& [limit, ranks] : limited) {
    finding.evidence.push_back(fmt::format("{}: {}", ranks_text(ranks), limit));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.evidence.emplace_back(
      "free memory of a GPU is what all of its clients leave; what ranks allocated is exact");
  if (has_timeline) {
    finding.evidence.emplace_back(
        "kernels may have waited for those of other clients, and a GPU that a rank left idle may "
        "have been busy");
  }
  finding.evidence.emplace_back(
      "a fatal fault in a kernel of one client is reported to all of them, without saying whose it "
      "was");
  finding.sides = {clients};
  finding.advice =
      "to compare times or memory of the GPU with other runs, run the job without MPS or alone on "
      "its GPUs";
  return {finding};
}

}  // namespace traintrace
