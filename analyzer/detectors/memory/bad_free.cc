// Memory that was freed twice, or that is none.
#include <fmt/format.h>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

MemorySite site_of_free(const Run& run, size_t process, const BadFree& bad) {
  MemorySite site;
  site.rank = rank_on(run, process, bad.device);
  site.process = process;
  site.stack = bad.stack;
  site.count = 1;
  site.text =
      fmt::format("{} of 0x{:x} was refused at {}", call_name(run.processes[process], bad.call),
                  bad.address, run_time(run, bad.time));
  if (bad.before) {
    MemorySite first = site;
    first.stack = bad.first_stack;
    site.text += fmt::format(", it had been freed at {} by {};", run_time(run, bad.first_time),
                             place_of_site(run, first));
  }
  return site;
}

std::vector<Finding> find_bad_frees(const Run& run, const RunMemory& memory, bool twice) {
  std::vector<MemorySite> sites;
  for (size_t i = 0; i < memory.processes.size(); ++i) {
    const auto& history = memory.processes[i].history;
    const std::vector<BadFree> none;
    for (const BadFree& bad : history ? history->bad_frees : none) {
      const Owner owner = owner_of(run.processes[i], bad.stack);
      if (bad.before == twice && !is_library(owner) && rank_on(run, i, bad.device).value >= 0) {
        sites.push_back(site_of_free(run, i, bad));
      }
    }
  }
  if (sites.empty()) {
    return {};
  }
  Finding finding =
      memory_finding(run, twice ? "memory.double-free" : "memory.invalid-free", sites);
  finding.certainty = Certainty::kProof;  // the driver said so itself
  finding.root = true;
  finding.title = fmt::format("{} freed {} at {}", ranks_text(finding.culprits),
                              twice ? "memory a second time" : "what is no allocation",
                              place_of_site(run, sites.front()));
  finding.values = {{"free_count", static_cast<int64_t>(sites.size())}};
  finding.advice = twice ? "let one owner free it, and forget the address then"
                         : "free the address that the allocation gave, with the function that "
                           "belongs to it; it may also have been freed before the oldest record";
  return {finding};
}

}  // namespace

std::vector<Finding> find_double_frees(const Run& run, const RunMemory& memory) {
  return find_bad_frees(run, memory, true);
}

std::vector<Finding> find_invalid_frees(const Run& run, const RunMemory& memory) {
  return find_bad_frees(run, memory, false);
}

}  // namespace traintrace
