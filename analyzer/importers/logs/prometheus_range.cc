#include <fmt/format.h>

#include <cmath>
#include <map>

#include "analyzer/importers/json_value.h"
#include "analyzer/importers/logs/dcgm_fields.h"
#include "analyzer/importers/logs/gpu_logs.h"
#include "analyzer/importers/logs/log_lines.h"
#include "analyzer/importers/logs/log_time.h"

namespace traintrace {
namespace {

struct GpuSamples {
  DeviceLine line;
  std::map<int64_t, ReadLine> reads;  // by time
  std::vector<XidLine> xids;
};
using GpusByUuid = std::map<std::string, GpuSamples>;

std::string_view label(const Value& metric, std::string_view name) {
  const Value* const value = metric.find(name);
  return value == nullptr ? std::string_view() : value->as_text();
}

class RangeReader {
 public:
  RangeReader(const std::string& file, const std::string& host) : file_(file), host_(host) {}

  std::optional<ReadError> take(const Value& root) {
    const Value* const data = root.find("data");
    const Value* const series = data == nullptr ? nullptr : data->find("result");
    if (series == nullptr || series->kind() != Value::Kind::kList ||
        label(*data, "resultType") != "matrix") {
      return wrong("the answer to a range query: .../api/v1/query_range?query=..");
    }
    for (const Value& each : series->list()) {
      ++series_;
      if (std::optional<ReadError> error = take_series(each)) {
        return error;
      }
    }
    return hosts_.empty() ? std::optional(wrong("series of dcgm-exporter: DCGM_FI_DEV_..{UUID=..}"))
                          : std::nullopt;
  }

  std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    for (const auto& [host, gpus] : hosts_) {
      int device = kMostTelemetryDevices;
      for (const auto& [uuid, gpu] : gpus) {
        if (device == kMostTelemetryDevices) {
          device = 0;
          texts.push_back(std::string(kTelemetryMagic) + "\n" +
                          text_of(FactLine{"source", "prometheus"}) +
                          (host.empty() ? "" : text_of(FactLine{"host", host})));
        }
        add(gpu, device++, texts.back());
      }
    }
    return texts;
  }

 private:
  static void add(const GpuSamples& gpu, int device, std::string& text) {
    DeviceLine line = gpu.line;
    line.device = device;
    text += text_of(line);
    for (const auto& [time, read] : gpu.reads) {
      text += text_of(ReadLine{device, time, read.values});
    }
    for (const XidLine& xid : gpu.xids) {
      text += text_of(XidLine{device, xid.time, xid.xid});
    }
  }

  ReadError wrong(std::string_view expected) const {
    return {file_, 0,
            series_ == 0 ? fmt::format("expected {}", expected)
                         : fmt::format("expected {} in series {}", expected, series_),
            true};
  }

  std::optional<ReadError> take_series(const Value& series) {
    const Value* const metric = series.find("metric");
    const Value* const samples = series.find("values");
    if (metric == nullptr || samples == nullptr || samples->kind() != Value::Kind::kList) {
      return wrong("metric and values");
    }
    const std::string_view name = label(*metric, "__name__");
    const DcgmField* const field = dcgm_field_exported(name);
    if ((field == nullptr && name != kDcgmXidExported) || !label(*metric, "GPU_I_ID").empty()) {
      return std::nullopt;  // another metric, or of a part of a GPU (MIG)
    }
    const std::string uuid(label(*metric, "UUID"));
    if (uuid.empty()) {
      return wrong("the label UUID");
    }
    const std::string host = host_.empty() ? std::string(label(*metric, "Hostname")) : host_;
    GpuSamples& gpu = hosts_[host][uuid];
    gpu.line.uuid = uuid;
    gpu.line.pci = plain_pci(label(*metric, "pci_bus_id"));
    gpu.line.name = label(*metric, "modelName");
    DcgmXids xids;
    for (const Value& sample : samples->list()) {
      if (std::optional<ReadError> error = take_sample(sample, field, gpu, xids)) {
        return error;
      }
    }
    return std::nullopt;
  }

  // [1775721747.082, "32"]; `field`: null for the Xids.
  std::optional<ReadError> take_sample(const Value& sample, const DcgmField* field, GpuSamples& gpu,
                                       DcgmXids& xids) const {
    const auto parts = sample.list();
    const double seconds = parts.size() == 2 ? parts[0].as_number(-1) : -1;
    if (!(seconds > 0) || seconds >= static_cast<double>(kMostLogSeconds)) {
      return wrong("samples such as [1795669800.25, \"32\"]");
    }
    const DcgmValue value = dcgm_value(parts[1].as_text());
    const auto reading =
        field != nullptr && value.value ? dcgm_reading(*field, *value.value) : std::nullopt;
    if (!value.is_number || (field != nullptr && value.value && !reading)) {
      return wrong("numbers as values");
    }
    constexpr int64_t kMillisecond = 1'000'000;  // as exact as Prometheus is
    const int64_t time = std::llround(seconds * 1000) * kMillisecond;
    if (reading) {
      gpu.reads[time].values.emplace_back(field->reading, *reading);
    } else if (const auto xid = field == nullptr ? xids.take(value.value) : std::nullopt) {
      gpu.xids.push_back({0, time, *xid});
    }
    return std::nullopt;
  }

  std::string file_;
  std::string host_;
  size_t series_ = 0;  // which is being read, from 1
  std::map<std::string, GpusByUuid> hosts_;
};

}  // namespace

Result<std::vector<std::string>> telemetry_of_prometheus(std::string_view text,
                                                         const std::string& file,
                                                         const std::string& host) {
  const Result<std::string_view> utf8 = utf8_text(text, file);
  if (!utf8) {
    return utf8.error();
  }
  ValueArena arena;
  const Result<Value> root = read_json(*utf8, file, arena);
  if (!root) {
    return root.error();
  }
  RangeReader reader(file, host);
  if (std::optional<ReadError> error = reader.take(*root)) {
    return *error;
  }
  return reader.texts();
}

}  // namespace traintrace
