// Memory of one device that was used or freed while another was current.
#include <fmt/format.h>

#include <map>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/memory_use.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {

std::vector<Finding> find_wrong_devices(const Run& run, const RunMemory& memory) {
  std::vector<MemorySite> sites;
  uint64_t uses = 0;
  bool frees_only = true;
  for (size_t i = 0; i < memory.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    std::map<std::pair<uint32_t, uint32_t>, size_t> known;  // stacks, index in sites
    for (const ForeignUse& use : foreign_uses(trace)) {
      MemorySite site;
      site.process = i;
      site.rank = rank_on(run, i, use.device);
      const auto [found, is_new] = known.try_emplace({use.stack, use.allocated}, sites.size());
      if (site.rank.value < 0) {
        continue;
      }
      ++uses;
      frees_only = frees_only && use.is_free;
      if (!is_new) {
        ++sites[found->second].count;
        continue;
      }
      site.stack = use.allocated;
      const std::string allocated = place_of_site(run, site);
      site.stack = use.stack;
      site.bytes = use.bytes;
      site.count = 1;
      site.text = fmt::format(
          "{} on device {} of {} bytes of device {}, first at {} (they were allocated at {}),",
          call_name(trace, use.call), use.device, use.bytes, use.owner, run_time(run, use.time),
          allocated);
      sites.push_back(site);
    }
  }
  if (sites.empty()) {
    return {};
  }
  Finding finding = memory_finding(run, "memory.wrong-device", sites);
  // A free works from everywhere, and programs for several devices rely on it.
  finding.severity = frees_only ? Severity::kInfo : finding.severity;
  finding.certainty = frees_only ? Certainty::kPossible : Certainty::kLikely;
  finding.title =
      fmt::format("{} used or freed memory of one device while another was current, {} times{}",
                  ranks_text(finding.culprits), uses,
                  finding.where.empty() ? "" : ", at " + place_text(finding.where.front()));
  finding.values = {{"use_count", signed_bytes(uses)}};
  finding.advice =
      "call cudaSetDevice with the device of the memory first: it works elsewhere, "
      "but makes a context there, and orders nothing with the streams that use it";
  return {finding};
}

}  // namespace traintrace
