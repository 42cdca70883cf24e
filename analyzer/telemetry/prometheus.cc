#include "analyzer/telemetry/prometheus.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "analyzer/text/printable.h"

namespace traintrace {
namespace {

// Value of a label: UTF-8 with \, " and newlines escaped.
std::string label_value(const std::string& text) {
  std::string escaped;
  for (const char c : printable(text)) {
    escaped += c == '\\' || c == '"' ? std::string{'\\', c} : std::string(1, c);
  }
  return escaped;
}

std::string labels_of(int device, const std::map<int, DeviceLine>& devices) {
  const auto known = devices.find(device);
  const DeviceLine line = known == devices.end() ? DeviceLine{} : known->second;
  return fmt::format(R"(gpu="{}",uuid="{}",pci="{}")", device, label_value(line.uuid),
                     label_value(line.pci));
}

std::string head_of_metric(std::string_view name, std::string_view type, std::string_view help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
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

bool write_for_prometheus(const std::string& path, const std::string& text, std::string& problem) {
  constexpr mode_t kAllMayRead = 0644;
  const std::string beside =
      fmt::format("{}.{}.tmp", path, getpid());  // the collector reads *.prom
  const int file =
      open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kAllMayRead);
  const bool written = file >= 0 && fchmod(file, kAllMayRead) == 0 &&
                       write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) {
    close(file);
  }
  if (!written || std::rename(beside.c_str(), path.c_str()) != 0) {
    problem = path + ": " + std::strerror(errno);
    unlink(beside.c_str());
    return false;
  }
  return true;
}

}  // namespace traintrace
