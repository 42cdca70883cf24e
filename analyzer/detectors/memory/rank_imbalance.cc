// The peak of one rank stands out, and what makes it so.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/memory/allocator/allocation_split.h"
#include "analyzer/memory/allocator/peak_places.h"
#include "analyzer/memory/device_peaks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct RankPeak {
  uint64_t bytes = 0;
  MemorySite site;
  int device = -1;
};

void add_peak(const Run& run, size_t process, int device, uint64_t bytes,
              std::vector<RankPeak>& peaks) {
  RankPeak peak{bytes, {}, device};
  peak.site.rank = rank_on(run, process, device);
  peak.site.process = process;
  if (peak.site.rank.value >= 0 && peak.bytes != 0) {
    peaks.push_back(peak);
  }
}

// Without PyTorch's allocator, of what calls took; only where that is known of all ranks.
std::vector<RankPeak> peaks_of_calls(const Run& run) {
  std::vector<RankPeak> peaks;
  if (run.ranks.size() < kPeakRanks) {
    return peaks;
  }
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    const DevicePeaks all = has_events(trace) ? device_peaks(trace) : DevicePeaks{{}, "not read"};
    if (!all.unknown.empty()) {
      return {};
    }
    for (const DevicePeak& peak : all.devices) {
      if (rank_on(run, state.process, peak.device) == state.rank) {
        add_peak(run, state.process, peak.device, peak.allocated.value_or(0), peaks);
      }
    }
  }
  return peaks;
}

std::vector<RankPeak> peaks_of(const Run& run) {
  std::vector<RankPeak> peaks;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    for (const TensorDeviceText& device : run.processes[i].tensor_devices) {
      add_peak(run, i, device.device, device.peak_allocated, peaks);
    }
  }
  if (peaks.empty()) {
    peaks = peaks_of_calls(run);
  }
  // Of equal ones the order of the files must not decide which is the typical rank.
  std::sort(peaks.begin(), peaks.end(), [](const RankPeak& a, const RankPeak& b) {
    return std::tuple(a.bytes, a.site.rank, a.device) < std::tuple(b.bytes, b.site.rank, b.device);
  });
  return peaks;
}

PeakPlaces places_of(const Run& run, const RunMemory& memory, const RankPeak& peak) {
  const ProcessTrace& trace = run.processes[peak.site.process];
  for (const AllocatorHistory& history : memory.processes[peak.site.process].allocators) {
    if (history.device == peak.device) {
      return places_at_peak(trace, peak.site.rank, history);
    }
  }
  return trace.tensor_devices.empty() && has_events(trace)
             ? places_at_peak(trace, peak.site.rank, peak.device)
             : PeakPlaces();
}

// The rank nearest to the median of which it is known what it had in use at its peak.
struct Typical {
  RankPeak peak;
  PeakPlaces places;
};
std::optional<Typical> typical_rank(const Run& run, const RunMemory& memory,
                                    const std::vector<RankPeak>& peaks) {
  const uint64_t median = peaks[(peaks.size() - 1) / 2].bytes;
  std::vector<RankPeak> near(peaks.begin(), peaks.end() - 1);
  const auto distance = [&](const RankPeak& peak) {
    return peak.bytes > median ? peak.bytes - median : median - peak.bytes;
  };
  std::stable_sort(near.begin(), near.end(),
                   [&](const RankPeak& a, const RankPeak& b) { return distance(a) < distance(b); });
  for (const RankPeak& peak : near) {
    PeakPlaces places = places_of(run, memory, peak);
    if (!places.empty()) {
      return Typical{peak, std::move(places)};
    }
  }
  return std::nullopt;
}

// Alone, and by much.
bool stands_out(const RankPeak& high, const RankPeak& second, const RankPeak& typical) {
  return is_much(high.bytes - typical.bytes, typical.bytes) &&
         second.bytes - typical.bytes < (high.bytes - typical.bytes) / 2;
}

bool all_known(const RunMemory& memory, const RankPeak& peak) {
  const auto& history = memory.processes[peak.site.process].history;
  return history && history->whole;
}

std::string taken_text(const Run& run, const RankPeak& peak, uint32_t stack, uint64_t bytes) {
  MemorySite site = peak.site;
  site.stack = stack;
  return bytes == 0 ? "no more" : fmt::format("{} bytes at {}", bytes, place_of_site(run, site));
}

// Where what the two allocate is not the same any more: what came before cannot be the reason.
void add_split(const Run& run, const RunMemory& memory, const RankPeak& high,
               const RankPeak& typical, Finding& finding) {
  if (!all_known(memory, high) || !all_known(memory, typical)) {
    return;
  }
  const ProcessTrace& trace = run.processes[high.site.process];
  const ProcessTrace& other = run.processes[typical.site.process];
  const auto split = allocation_split({&trace, high.site.rank, high.device},
                                      {&other, typical.site.rank, typical.device});
  // Who still runs may allocate it yet.
  if (!split || (split->other_bytes == 0 && other.exit_kind == format::kNotExited)) {
    return;
  }
  finding.evidence.push_back(fmt::format(
      "{} allocations of that thread are those of rank {}; then, at {}, rank {} took {}, rank {} "
      "{}",
      split->same, typical.site.rank.value, run_time(run, split->time), high.site.rank.value,
      taken_text(run, high, split->stack, split->bytes), typical.site.rank.value,
      taken_text(run, typical, split->other_stack, split->other_bytes)));
  finding.values.emplace_back("same_count", static_cast<int64_t>(split->same));
  finding.values.emplace_back("split_bytes", signed_bytes(split->bytes));
  const auto place = user_place(trace, high.site.rank, split->stack);
  if (place && (finding.where.empty() || place_text(*place) != place_text(finding.where.front()))) {
    finding.where.push_back(*place);
  }
}

bool is_explained_by(const Finding& imbalance, const Finding& other) {
  return (other.code == "memory.growth-leak" || other.code == "memory.leak-at-exit") &&
         other.severity != Severity::kInfo && !imbalance.where.empty() && !other.where.empty() &&
         other.culprits == imbalance.culprits &&
         place_text(other.where.front()) == place_text(imbalance.where.front());
}

}  // namespace

void drop_imbalance_by_leaks(std::vector<Finding>& findings) {
  const std::vector<Finding> all = findings;
  std::erase_if(findings, [&](const Finding& finding) {
    return finding.code == "memory.rank-imbalance" &&
           std::any_of(all.begin(), all.end(),
                       [&](const Finding& other) { return is_explained_by(finding, other); });
  });
}

std::vector<Finding> find_rank_imbalance(const Run& run, const RunMemory& memory) {
  const std::vector<RankPeak> peaks = peaks_of(run);
  if (peaks.size() < kPeakRanks) {
    return {};
  }
  RankPeak high = peaks.back();
  const RankPeak& typical = peaks[(peaks.size() - 1) / 2];
  if (!stands_out(high, peaks[peaks.size() - 2], typical)) {
    return {};
  }
  const PeakPlaces held = places_of(run, memory, high);
  const std::optional<Typical> usual = typical_rank(run, memory, peaks);
  const Surplus surplus = usual ? surplus_of(held, usual->places) : Surplus();
  high.site.bytes = high.bytes;
  high.site.count = 1;
  high.site.stack = surplus.stack;
  high.site.text = fmt::format("{} bytes at its peak, rank {} {} bytes;", high.bytes,
                               typical.site.rank.value, typical.bytes);
  Finding finding = memory_finding(run, "memory.rank-imbalance", {high.site});
  finding.certainty = Certainty::kLikely;
  finding.title = fmt::format(
      "the memory of rank {} stands out: {} bytes at its peak, {} bytes on the typical rank {}",
      high.site.rank.value, high.bytes, typical.bytes, typical.site.rank.value);
  finding.values = {{"peak_bytes", signed_bytes(high.bytes)},
                    {"typical_bytes", signed_bytes(typical.bytes)}};
  if (surplus.bytes != 0) {
    finding.title += fmt::format("; of {} it has {} bytes instead of {} bytes", surplus.place,
                                 surplus.bytes, surplus.other);
    finding.values.emplace_back("surplus_bytes", signed_bytes(surplus.bytes - surplus.other));
  }
  if (usual) {
    add_split(run, memory, high, usual->peak, finding);
  }
  finding.advice = "all ranks wait for the one that runs out: spread what only it holds";
  return {finding};
}

}  // namespace traintrace
