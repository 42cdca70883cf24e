// Memory that PyTorch's allocator holds in pieces between blocks in use, none large enough for what
// was asked, so that it took more.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"

namespace traintrace {
namespace {

const CacheMiss* worst_miss(const AllocatorHistory& history) {
  const CacheMiss* worst = nullptr;
  for (const CacheMiss& miss : history.misses) {
    if (miss.reason == MissReason::kPieces && (worst == nullptr || miss.free > worst->free)) {
      worst = &miss;
    }
  }
  return worst;
}

bool is_fragmented(const AllocatorHistory& history) {
  const uint64_t idle =
      history.peak_reserved - std::min(history.peak_reserved, history.peak_allocated);
  const CacheMiss* const miss = worst_miss(history);
  return history.placed && miss != nullptr && is_much(idle, history.peak_reserved) &&
         is_much(miss->free, history.peak_reserved);
}

void add_measures(const Run& run, const AllocatorCase& worst, Finding& finding) {
  const AllocatorHistory& history = *worst.history;
  const CacheMiss& miss = *worst_miss(history);
  constexpr double kPercent = 100;
  const FragmentationMeasures measures = measures_of(history.worst);
  finding.evidence.push_back(
      fmt::format("rank {}: then {} bytes of {} bytes held were free in {} holes, the largest of "
                  "{} bytes; none of "
                  "the {} bytes that the request could have come from was in a piece of {} bytes",
                  worst.site.rank.value, history.worst.free, history.worst.reserved,
                  history.worst.holes.size(), history.worst.largest, miss.free, miss.request));
  finding.evidence.push_back(fmt::format(
      "rank {}: peak in use {} bytes of peak held {} bytes; of what was free, {:.0f} % was outside "
      "the largest hole and {:.0f} % in holes too small for the request; {:.0f} % of what was held "
      "was free",
      worst.site.rank.value, history.peak_allocated, history.peak_reserved,
      measures.external * kPercent, unusable_share(history.worst, miss.request) * kPercent,
      measures.idle * kPercent));
  constexpr size_t kMostPins = 3;
  for (size_t i = 0; i < std::min(history.pins.size(), kMostPins); ++i) {
    MemorySite pin = worst.site;
    pin.stack = history.pins[i].first;
    finding.evidence.push_back(fmt::format("rank {}: {} bytes of {} separate the holes",
                                           pin.rank.value, history.pins[i].second,
                                           place_of_site(run, pin)));
  }
}

}  // namespace

std::vector<Finding> find_fragmentation(const Run& run, const RunMemory& memory) {
  const auto cases = allocator_cases(
      run, memory, [&](const ProcessMemory&, const AllocatorHistory& history, MemorySite& site) {
        if (!is_fragmented(history)) {
          return false;
        }
        const CacheMiss& miss = *worst_miss(history);
        site.stack = miss.stack;
        site.bytes = miss.free;
        site.count = 1;
        site.text = fmt::format(
            "took {} bytes more from the device at {} for a request of {} bytes, although {} bytes "
            "were free, in pieces that are too small;",
            miss.mapped, run_time(run, miss.time), miss.request, miss.free);
        return true;
      });
  if (cases.empty()) {
    return {};
  }
  Finding finding = allocator_finding(run, "memory.fragmentation", cases);
  const AllocatorHistory& worst = *cases.front().history;
  finding.title = fmt::format(
      "the memory of {} is fragmented: PyTorch held {} bytes for {} bytes in use on rank {}{}",
      ranks_text(finding.culprits), worst.peak_reserved, worst.peak_allocated,
      cases.front().site.rank.value, at_place(finding));
  finding.values = {{"reserved_bytes", signed_bytes(worst.peak_reserved)},
                    {"allocated_bytes", signed_bytes(worst.peak_allocated)},
                    {"unusable_bytes", signed_bytes(worst_miss(worst)->free)},
                    {"free_bytes", signed_bytes(worst.worst.free)},
                    {"largest_bytes", signed_bytes(worst.worst.largest)},
                    {"requested_bytes", signed_bytes(worst_miss(worst)->request)}};
  add_measures(run, cases.front(), finding);
  finding.advice = segments_advice(run.processes[cases.front().site.process]);
  return {finding};
}

}  // namespace traintrace
