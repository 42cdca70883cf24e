#include "analyzer/detectors/device/memory_errors.h"

#include "analyzer/thresholds.h"

namespace traintrace {

MemoryErrors memory_errors_of(const RankGpu& gpu) {
  const GpuHistory& history = *gpu.history;
  const TimeNs to = gpu.to + kFaultsAfterNs;
  const auto more = [&](GpuReading reading) {
    return growth(history, reading, gpu.from, to).value_or(0);
  };
  MemoryErrors errors;
  errors.uncorrected = more(GpuReading::kEccUncorrected);
  errors.corrected = more(GpuReading::kEccCorrected);
  errors.remapped = more(GpuReading::kRowsCorrected) + more(GpuReading::kRowsUncorrected);
  errors.is_pending = most(history, GpuReading::kRowsPending, gpu.from, to).value_or(0) != 0;
  errors.is_failed = most(history, GpuReading::kRowsFailed, gpu.from, to).value_or(0) != 0;
  return errors;
}

}  // namespace traintrace
