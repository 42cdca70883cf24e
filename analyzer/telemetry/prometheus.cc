#include "analyzer/telemetry/prometheus.h"

#include <fmt/format.h>

#include <map>

#include "analyzer/text/metrics.h"

namespace traintrace {
namespace {

std::string labels_of(int device, const std::map<int, DeviceLine>& devices) {
  const auto known = devices.find(device);
  const DeviceLine line = known == devices.end() ? DeviceLine{} : known->second;
  return fmt::format(R"(gpu="{}",uuid="{}",pci="{}")", device, label_value(line.uuid),
                     label_value(line.pci));
}

std::string readings_text(const TelemetryFile& file, size_t reading) {
  const ReadingSpec& spec = kReadingSpecs[reading];
  const std::string name = fmt::format("traintrace_gpu_{}", spec.exported);
  std::string samples;
  for (const auto& [device, latest] : file.latest()) {
    if (latest[reading]) {
      fmt::format_to(std::back_inserter(samples), "{}{{{}}} {:.15g}\n", name,
                     labels_of(device, file.devices()),
                     static_cast<double>(*latest[reading]) * spec.scale);
    }
  }
  const char* const type = spec.kind == ReadingKind::Counter ? "counter" : "gauge";
  return samples.empty() ? "" : head_of_metric(name, type, spec.meaning) + samples;
}

std::string xids_text(const TelemetryFile& file) {
  std::map<std::pair<int, int64_t>, size_t> counts;
  for (const XidLine& xid : file.xids()) {
    ++counts[{xid.device, xid.xid}];
  }
  std::string text;
  for (const auto& [which, count] : counts) {
    fmt::format_to(std::back_inserter(text),
                   "traintrace_gpu_xid_errors_total{{{},xid=\"{}\"}} {}\n",
                   labels_of(which.first, file.devices()), which.second, count);
  }
  return text.empty() ? ""
                      : head_of_metric("traintrace_gpu_xid_errors_total", "counter",
                                       "Xid events that NVML reported since telemetry began") +
                            text;
}

}  // namespace

std::string prometheus_text(const TelemetryFile& file, size_t hung) {
  std::string text;
  for (size_t reading = 0; reading < kReadings; ++reading) {
    text += readings_text(file, reading);
  }
  constexpr std::string_view kHung = "traintrace_telemetry_hung_queries";
  return text + xids_text(file) +
         head_of_metric(kHung, "gauge",
                        "queries to NVML that have not returned for ten intervals") +
         fmt::format("{} {}\n", kHung, hung);
}

}  // namespace traintrace
