// Why a slow GPU is slow, as far as its counters say.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/device/held_clocks.h"
#include "analyzer/detectors/device/memory_errors.h"
#include "analyzer/detectors/device/telemetry_findings.h"
#include "analyzer/text/sizes.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct GpuCause {
  std::string text;    // "its clock was held down by .."
  std::string advice;  // empty: that of the finding
};

std::optional<GpuCause> cause_of_clock(const std::vector<RankGpu>& gpus, size_t which) {
  const std::vector<HeldClock> held = held_clocks(gpus);
  const auto found = std::find_if(held.begin(), held.end(),
                                  [&](const HeldClock& each) { return each.gpu == which; });
  if (found == held.end()) {
    return std::nullopt;
  }
  return GpuCause{
      fmt::format("its clock was held down by {} for {:.0f} % of the time (the others' for "
                  "{:.0f} %)",
                  held_by_text(found->by), 100 * found->share, 100 * found->others),
      found->by == HeldBy::kHeat ? "check the cooling of that GPU; see device.throttled"
      : found->by == HeldBy::kPowerCap
          ? "compare power limits and temperatures of the GPUs: nvidia-smi -q -d POWER,"
            "TEMPERATURE; a hotter chip needs more power for the same clock"
          : "check the power supply of that GPU; see device.throttled"};
}

using Ask = std::optional<int64_t> (*)(const GpuHistory&, GpuReading, TimeNs, TimeNs);

// Of all GPUs, as far as they are known.
std::vector<std::optional<double>> values_of(const std::vector<RankGpu>& gpus, Ask ask,
                                             GpuReading reading, TimeNs later) {
  std::vector<std::optional<double>> values;
  values.reserve(gpus.size());
  for (const RankGpu& gpu : gpus) {
    const auto value = ask(*gpu.history, reading, gpu.from, gpu.to + later);
    values.push_back(value ? std::optional(static_cast<double>(*value)) : std::nullopt);
  }
  return values;
}

std::optional<GpuCause> cause_of_limits(const std::vector<RankGpu>& gpus, size_t which) {
  struct Limit {
    GpuReading reading;
    const char* text;
    double unit;
    const char* advice;
  };
  constexpr Limit kLimits[] = {
      {GpuReading::kSmClockLimit, "its application clock is {:.0f} MHz, the others' {:.0f}", 1,
       "set equal clocks: nvidia-smi -rac, or -lgc on all"},
      {GpuReading::kPowerLimit, "its power limit is {:.0f} W, the others' {:.0f}", 1000,
       "set equal power limits: nvidia-smi -pl"},
  };
  for (const Limit& limit : kLimits) {
    const auto values = values_of(gpus, least, limit.reading, kFaultsAfterNs);
    const double others = median_of_others(values, which);
    if (values[which] && others > 0 && *values[which] < kLimitLower * others) {
      return GpuCause{
          fmt::format(fmt::runtime(limit.text), *values[which] / limit.unit, others / limit.unit),
          limit.advice};
    }
  }
  return std::nullopt;
}

std::optional<GpuCause> cause_of_memory(const std::vector<RankGpu>& gpus, size_t which) {
  const MemoryErrors errors = memory_errors_of(gpus[which]);
  std::vector<std::optional<double>> corrected;
  corrected.reserve(gpus.size());
  for (const RankGpu& gpu : gpus) {
    corrected.emplace_back(static_cast<double>(memory_errors_of(gpu).corrected));
  }
  const bool corrects = errors.corrected > 0 && static_cast<double>(errors.corrected) >=
                                                    kHeldMore * median_of_others(corrected, which);
  if (errors.uncorrected == 0 && errors.remapped == 0 && !corrects) {
    return std::nullopt;
  }
  return GpuCause{
      fmt::format("its memory failed meanwhile: {} corrected and {} uncorrected ECC errors, "
                  "{} rows remapped",
                  errors.corrected, errors.uncorrected, errors.remapped),
      "drain the node and test the GPU: dcgmi diag -r 3; see device.ecc"};
}

// By the memory in use before its ranks allocate any: what they hold later is their own.
std::optional<GpuCause> cause_of_others(const std::vector<RankGpu>& gpus, size_t which) {
  const auto values = values_of(gpus, least, GpuReading::kMemoryUsed, 0);
  const bool is_early = gpus[which].history->first <= gpus[which].from;
  const double more = values[which].value_or(0) - median_of_others(values, which);
  if (!is_early || gpus.size() == 1 || more < static_cast<double>(kForeignMemory)) {
    return std::nullopt;
  }
  return GpuCause{
      fmt::format("another process is on it: {} more of its memory was in use than of the others' "
                  "before the job allocated any",
                  file_size_text(static_cast<uint64_t>(more))),
      "find that process and end it: nvidia-smi"};
}

GpuCause no_gpu_cause(const std::vector<RankGpu>& gpus, size_t which) {
  std::vector<std::optional<double>> clocks;
  clocks.reserve(gpus.size());
  for (const RankGpu& gpu : gpus) {
    clocks.push_back(mean(*gpu.history, GpuReading::kSmClock, gpu.from, gpu.to));
  }
  const std::string clock = clocks[which]
                                ? fmt::format(" (clock {:.0f} MHz, the others' {:.0f})",
                                              *clocks[which], median_of_others(clocks, which))
                                : "";
  return {"its counters show no reason" + clock, ""};
}

GpuCause gpu_cause_of(const std::vector<RankGpu>& gpus, size_t which) {
  for (const auto& find : {cause_of_clock, cause_of_limits, cause_of_memory, cause_of_others}) {
    if (std::optional<GpuCause> cause = find(gpus, which)) {
      return std::move(*cause);
    }
  }
  return no_gpu_cause(gpus, which);
}

bool has_readings(const RankGpu& gpu) {
  return gpu.history->first != 0 && gpu.history->first < gpu.to && gpu.history->last > gpu.from;
}

}  // namespace

void add_causes(const std::vector<RankGpu>& gpus, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (finding.code != "latency.slow-device") {
      continue;
    }
    for (size_t i = 0; i < gpus.size(); ++i) {
      const bool is_meant = std::any_of(gpus[i].ranks.begin(), gpus[i].ranks.end(), [&](Rank rank) {
        return contains(finding.culprits, rank);
      });
      if (!is_meant || !has_readings(gpus[i])) {
        continue;
      }
      const GpuCause cause = gpu_cause_of(gpus, i);
      finding.evidence.push_back(fmt::format("{}: {}; {}", ranks_text(gpus[i].ranks), cause.text,
                                             gpu_text(*gpus[i].history)));
      if (!cause.advice.empty()) {
        finding.advice = cause.advice;
        finding.title += finding.culprits.size() == 1 ? "; " + cause.text : "";
      }
    }
  }
}

}  // namespace traintrace
