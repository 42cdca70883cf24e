#include "analyzer/commands/diff_memory.h"

#include <algorithm>
#include <optional>
#include <set>

#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/device_peaks.h"
#include "analyzer/model/process/look_up_code.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {
namespace {

constexpr size_t kMostRead = 4;  // pairs of processes

struct Side {
  const ProcessTrace* tables = nullptr;
  Rank rank;
  int device = -1;
  uint64_t peak = 0;
};
struct DevicePair {
  Side a, b;
};

// What PyTorch's allocator handed out, on each device of which that is known.
std::vector<Side> sides_of(const Run& run) {
  std::vector<Side> sides;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    if (trace.tensor_devices.empty()) {
      continue;
    }
    for (const DevicePeak& peak : device_peaks(trace).devices) {
      const Rank rank = rank_on(run, i, peak.device);
      if (rank.value >= 0 && peak.allocated) {
        sides.push_back({&trace, rank, peak.device, *peak.allocated});
      }
    }
  }
  return sides;
}

// The same rank and device; two ranks where each side has one alone.
std::vector<DevicePair> pairs_of(const Run& a, const Run& b) {
  const std::vector<Side> of_a = sides_of(a);
  const std::vector<Side> of_b = sides_of(b);
  if (a.ranks.size() == 1 && b.ranks.size() == 1 && of_a.size() == 1 && of_b.size() == 1) {
    return {{of_a.front(), of_b.front()}};
  }
  std::vector<DevicePair> pairs;
  for (const Side& side : of_a) {
    const auto same = std::find_if(of_b.begin(), of_b.end(), [&](const Side& other) {
      return other.rank == side.rank && other.device == side.device;
    });
    if (same != of_b.end()) {
      pairs.push_back({side, *same});
    }
  }
  return pairs;
}

// Who has not ended may yet take as much.
bool is_to_be_told(const DevicePair& pair) {
  const Side& low = pair.a.peak < pair.b.peak ? pair.a : pair.b;
  return peaks_differ(pair.a.peak, pair.b.peak) && low.tables->exit_kind != format::kNotExited;
}

std::optional<ProcessTrace> with_events(const ProcessTrace& tables, Symbolizer& symbolizer) {
  Result<ProcessTrace> read =
      tables.events.empty()
          ? read_trace(tables.source, {.events = true, .reports = false, .booted = tables.booted})
          : Result<ProcessTrace>(tables);
  if (!read) {
    return std::nullopt;
  }
  const std::vector<uint32_t> stacks = stacks_of_memory(*read);
  look_up_code(*read, {stacks.begin(), stacks.end()}, symbolizer);
  return std::move(*read);
}

MemoryDiff diff_of(const DevicePair& pair, bool with_reason, Symbolizer& symbolizer) {
  RankAllocator a = {pair.a.tables, pair.a.rank, pair.a.device};
  RankAllocator b = {pair.b.tables, pair.b.rank, pair.b.device};
  std::optional<ProcessTrace> events_a;
  std::optional<ProcessTrace> events_b;
  if (with_reason) {
    events_a = with_events(*pair.a.tables, symbolizer);
    events_b = with_events(*pair.b.tables, symbolizer);
  }
  if (events_a && events_b) {
    a.trace = &*events_a;
    b.trace = &*events_b;
  }
  return memory_diff(a, pair.a.peak, b, pair.b.peak);
}

}  // namespace

std::vector<MemoryDiff> diff_memory(const Run& a, const Run& b) {
  std::vector<DevicePair> pairs = pairs_of(a, b);
  std::erase_if(pairs, [](const DevicePair& pair) { return !is_to_be_told(pair); });
  const auto difference = [](const DevicePair& pair) {
    return std::max(pair.a.peak, pair.b.peak) - std::min(pair.a.peak, pair.b.peak);
  };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const DevicePair& first, const DevicePair& second) {
                     return difference(first) > difference(second);
                   });
  Symbolizer symbolizer;
  std::vector<MemoryDiff> diffs;
  diffs.reserve(pairs.size());
  for (const DevicePair& pair : pairs) {
    diffs.push_back(diff_of(pair, diffs.size() < kMostRead, symbolizer));
  }
  return diffs;
}

}  // namespace traintrace
