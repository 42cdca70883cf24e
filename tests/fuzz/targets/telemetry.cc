// Telemetry files: parsed, and asked for what the detectors ask.  What is imported from the logs of
// others is such a file without a fault.
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "analyzer/importers/logs/gpu_logs.h"
#include "analyzer/telemetry/gpu_history.h"

using namespace traintrace;

namespace {

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void ask(const GpuHistory& gpu, TimeNs from, TimeNs to) {
  for (size_t i = 0; i < kReadings; ++i) {
    const auto reading = static_cast<GpuReading>(i);
    const auto grown = growth(gpu, reading, from, to);
    check(!grown || *grown >= 0);
    const auto low = least(gpu, reading, from, to);
    const auto high = most(gpu, reading, from, to);
    check(low.has_value() == high.has_value() && low.value_or(0) <= high.value_or(0));
    mean(gpu, reading, from, to);
  }
  const auto share = share_of_bits(gpu, 8, from, to);
  check(!share || (*share >= 0 && *share <= 1));
  const auto read = read_between(gpu, from, to);
  check(!read || read->first < read->second);
}

void check_imported(const Result<std::string>& telemetry) {
  std::vector<ReadError> errors;
  if (telemetry) {
    parse_telemetry(*telemetry, "imported", errors);
  }
  check(errors.empty() && (telemetry || !telemetry.error().message.empty()));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<ReadError> errors;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const TelemetryRecord record = parse_telemetry(text, "fuzz", errors);
  check(errors.size() <= 1);
  for (const GpuHistory& gpu : record.gpus) {
    ask(gpu, gpu.first, gpu.last);
    ask(gpu, 0, std::numeric_limits<TimeNs>::max());
    ask(gpu, gpu.last, gpu.first);
  }
  check_imported(telemetry_of_nvidia_smi(text, "fuzz", "node"));
  check_imported(telemetry_of_kernel_log(text, "fuzz", "node"));
  check_imported(telemetry_of_dcgmi_dmon(text, "fuzz", "node"));
  const Result<std::vector<std::string>> texts = telemetry_of_prometheus(text, "fuzz", "");
  check(texts || !texts.error().message.empty());
  for (const std::string& each : texts ? *texts : std::vector<std::string>()) {
    check_imported(each);
  }
  return 0;
}
