// What was seen of PyTorch's memory is not what its allocator says of itself.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/model/elapsed.h"

namespace traintrace {
namespace {

uint64_t difference(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

struct Gap {
  uint64_t bytes = 0;
  std::string text;
  bool of_segments = false;  // which others may have got for it (a pool of NCCL's, an extension)
};

std::optional<Gap> gap_of(const Run& run, const BookDisagreement& gap, const char* what) {
  if (gap.reports == 0) {
    return std::nullopt;
  }
  const uint64_t bytes = difference(gap.seen, gap.said);
  return Gap{bytes,
             fmt::format("PyTorch said {} bytes were {}, and {} had been seen, {} {}, at {} "
                         "and in {} reports in all",
                         gap.said, what, gap.seen, bytes, gap.said > gap.seen ? "less" : "more",
                         run_time(run, gap.first), gap.reports)};
}

// By the tables, which miss nothing that was reported.
std::optional<Gap> gap_in_tables(const TensorDeviceText& device) {
  const uint64_t seen = device.before + static_cast<uint64_t>(device.change);
  if (device.before != 0) {
    return Gap{device.before,
               fmt::format("{} bytes were in use before the first report: recording began late",
                           device.before)};
  }
  if (seen == device.allocated || device.allocated == 0) {
    return std::nullopt;
  }
  return Gap{difference(seen, device.allocated),
             fmt::format("its reports add up to {} bytes, and the last one said {}", seen,
                         device.allocated)};
}

std::optional<Gap> gap_on(const Run& run, const ProcessMemory& memory, const ProcessTrace& trace,
                          const TensorDeviceText& device) {
  if (trace.exit_kind == format::kNotExited) {
    return std::nullopt;  // it may have been between a report and what was kept of it
  }
  if (auto gap = gap_in_tables(device)) {
    return gap;
  }
  const auto history =
      std::find_if(memory.allocators.begin(), memory.allocators.end(),
                   [&](const AllocatorHistory& entry) { return entry.device == device.device; });
  if (history == memory.allocators.end() || !memory.history || !memory.history->whole) {
    return std::nullopt;  // what is lacking may be what was lost
  }
  auto gap = gap_of(run, history->allocated, "in use");
  if (!gap && (gap = gap_of(run, history->reserved, "held"))) {
    gap->of_segments = true;
  }
  return gap;
}

}  // namespace

std::vector<Finding> find_unaccounted(const Run& run, const RunMemory& memory) {
  std::vector<MemorySite> sites;
  bool segments_only = true;
  bool is_lost =
      true;  // of all of them records are known to be lost, which is a finding of its own
  for (size_t i = 0; i < memory.processes.size(); ++i) {
    for (const TensorDeviceText& device : run.processes[i].tensor_devices) {
      const auto gap = gap_on(run, memory.processes[i], run.processes[i], device);
      const Rank rank = rank_on(run, i, device.device);
      if (gap && rank.value >= 0) {
        segments_only = segments_only && gap->of_segments;
        is_lost = is_lost && !memory_is_whole(run.processes[i]);
        sites.push_back({.rank = rank, .process = i, .bytes = gap->bytes, .text = gap->text});
      }
    }
  }
  if (sites.empty()) {
    return {};
  }
  Finding finding = memory_finding(run, "memory.unaccounted", sites);
  finding.severity = segments_only || is_lost ? Severity::kInfo : finding.severity;
  finding.evidence.clear();
  for (const MemorySite& site : sites) {
    finding.evidence.push_back(fmt::format("rank {}: {}", site.rank.value, site.text));
  }
  finding.title = fmt::format(
      "what was seen of the memory of {} differs from what PyTorch's allocator says, "
      "by up to {} bytes",
      ranks_text(finding.culprits), finding.values.front().second);
  finding.values.resize(1);
  finding.culprits.clear();  // it is the record that lacks something
  finding.advice = "what is said of this memory elsewhere may be incomplete";
  return {finding};
}

}  // namespace traintrace
