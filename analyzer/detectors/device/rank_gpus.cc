#include "analyzer/detectors/device/rank_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/telemetry/telemetry_line.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {
namespace {

std::string fact_of(const ProcessTrace& trace, const std::string& key) {
  const auto fact = trace.facts.find(key);
  return fact == trace.facts.end() ? "" : fact->second;
}

void add_profiled(const Run& run, Rank rank, std::set<int>& devices) {
  if (run.profile == nullptr) {
    return;
  }
  for (const DeviceProfile& device : run.profile->devices) {
    if (device.rank == rank) {
      devices.insert(device.device);
    }
  }
}

// What it works on, by the strongest evidence that there is.
std::set<int> devices_of(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  std::set<int> devices;
  if (state.device >= 0) {
    return {state.device};
  }
  for (const CommunicatorText& communicator : trace.communicators) {
    if (communicator.device >= 0) {
      devices.insert(communicator.device);
    }
  }
  if (devices.empty()) {
    add_profiled(run, state.rank, devices);
  }
  for (const StreamText& stream : devices.empty() ? trace.streams : std::vector<StreamText>{}) {
    if (stream.device >= 0) {
      devices.insert(stream.device);
    }
  }
  const bool is_only_one =
      trace.facts.contains("gpu-0-uuid") && !trace.facts.contains("gpu-1-uuid");
  return devices.empty() && is_only_one ? std::set<int>{0} : devices;
}

const GpuHistory* history_of(const TelemetryRecord& telemetry, const ProcessTrace& trace,
                             int device) {
  const std::string uuid = fact_of(trace, fmt::format("gpu-{}-uuid", device));
  const std::string pci = plain_pci(fact_of(trace, fmt::format("gpu-{}-pci", device)));
  const GpuHistory* found = nullptr;
  for (const GpuHistory& gpu : telemetry.gpus) {
    const bool is_same_host = gpu.host == trace.host;
    const bool is_it = !uuid.empty() && !gpu.uuid.empty()
                           ? gpu.uuid == uuid
                           : !pci.empty() && gpu.pci == pci && is_same_host;
    // UUIDs are unique in the world, but those of what pretends to be a GPU may not be.
    if (is_it && (found == nullptr || is_same_host)) {
      found = &gpu;
    }
  }
  return found;
}

// What else is recorded of its GPU is told by the clock of its host.
void add_rank(const Run& run, const RankState& state, const GpuHistory* history,
              std::vector<RankGpu>& gpus) {
  // Of a damaged trace they may be any, and later ones are counted from them.
  constexpr TimeNs kMostTime = TimeNs{1} << 62;
  const ProcessTrace& trace = trace_of(run, state);
  const TimeNs moved = moved_by(run, trace);
  const TimeNs from = std::clamp<TimeNs>(elapsed(moved, trace.armed), 0, kMostTime);
  const TimeNs to = std::clamp<TimeNs>(
      elapsed(moved, std::max({state.last_seen, trace.last_alive, trace.exited})), from, kMostTime);
  auto known = std::find_if(gpus.begin(), gpus.end(),
                            [&](const RankGpu& gpu) { return gpu.history == history; });
  if (known == gpus.end()) {
    gpus.push_back({.history = history, .ranks = {}, .from = from, .to = to, .moved = moved});
    known = gpus.end() - 1;
  }
  insert(known->ranks, state.rank);
  known->from = std::min(known->from, from);
  known->to = std::max(known->to, to);
  known->running = known->running || trace.running_now == true;
}

}  // namespace

std::vector<RankGpu> gpus_of_ranks(const Run& run, const TelemetryRecord& telemetry) {
  std::vector<RankGpu> gpus;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    for (const int device : devices_of(run, state)) {
      if (const GpuHistory* const history = history_of(telemetry, trace, device)) {
        add_rank(run, state, history, gpus);
      }
    }
  }
  return gpus;
}

std::vector<RankGpu> recent_of(const std::vector<RankGpu>& gpus) {
  std::vector<RankGpu> recent;
  for (const RankGpu& gpu : gpus) {
    if (gpu.running && gpu.to - gpu.from > kRecentNs) {
      recent.push_back(gpu);
      recent.back().from = gpu.to - kRecentNs;
      recent.back().recent = true;
    }
  }
  return recent;
}

std::string time_text(const RankGpu& gpu) {
  constexpr TimeNs kSecondNs = 1'000'000'000;
  return gpu.recent ? fmt::format("the last {} s", kRecentNs / kSecondNs) : "the time";
}

std::string gpu_text(const GpuHistory& gpu) {
  const std::string& name = gpu.uuid.empty() ? gpu.pci : gpu.uuid;
  const bool has_both = !gpu.uuid.empty() && !gpu.pci.empty();
  return name + (has_both ? fmt::format(" ({})", gpu.pci) : "") +
         (gpu.host.empty() ? "" : " on " + gpu.host);
}

double median_of_others(const std::vector<std::optional<double>>& values, size_t but) {
  std::vector<double> others;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != but && values[i]) {
      others.push_back(*values[i]);
    }
  }
  if (others.empty()) {
    return 0;
  }
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return *middle;
}

}  // namespace traintrace
