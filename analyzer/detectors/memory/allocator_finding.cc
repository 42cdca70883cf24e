#include "analyzer/detectors/memory/allocator_finding.h"

#include <algorithm>
#include <tuple>

namespace traintrace {

std::vector<AllocatorCase> allocator_cases(const Run& run, const RunMemory& memory,
                                           const AllocatorLook& look) {
  std::vector<AllocatorCase> cases;
  for (size_t i = 0; i < memory.processes.size(); ++i) {
    for (const AllocatorHistory& history : memory.processes[i].allocators) {
      MemorySite site;
      site.rank = rank_on(run, i, history.device);
      site.process = i;
      if (site.rank.value >= 0 && look(memory.processes[i], history, site)) {
        cases.push_back({site, &history});
      }
    }
  }
  std::stable_sort(cases.begin(), cases.end(), [](const AllocatorCase& a, const AllocatorCase& b) {
    return std::tuple(~a.site.bytes, a.site.rank) < std::tuple(~b.site.bytes, b.site.rank);
  });
  return cases;
}

Finding allocator_finding(const Run& run, std::string_view code,
                          const std::vector<AllocatorCase>& cases) {
  std::vector<MemorySite> sites;
  sites.reserve(cases.size());
  for (const AllocatorCase& entry : cases) {
    sites.push_back(entry.site);
  }
  Finding finding = memory_finding(run, code, std::move(sites));
  finding.certainty = Certainty::kLikely;
  return finding;
}

std::string at_place(const Finding& finding) {
  return finding.where.empty() ? "" : ", at " + place_text(finding.where.front());
}

}  // namespace traintrace
