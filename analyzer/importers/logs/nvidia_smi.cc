#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

#include "analyzer/importers/logs/gpu_logs.h"
#include "analyzer/importers/logs/log_lines.h"
#include "analyzer/importers/logs/log_time.h"
#include "analyzer/telemetry/telemetry_line.h"

namespace traintrace {
namespace {

struct SmiColumn {
  std::string_view name;
  GpuReading reading;
  double scale;  // to the reading's unit
};
// Names as `nvidia-smi --help-query-gpu` has them.  The counters of software slowdowns are left
// out: some drivers give the same number for heat and for the power cap.
constexpr double kMegabyte = 1 << 20;
constexpr SmiColumn kSmiColumns[] = {
    {"clocks.current.sm", GpuReading::kSmClock, 1},
    {"clocks.sm", GpuReading::kSmClock, 1},
    {"clocks.current.memory", GpuReading::kMemoryClock, 1},
    {"clocks.mem", GpuReading::kMemoryClock, 1},
    {"clocks.applications.graphics", GpuReading::kSmClockLimit, 1},
    {"clocks.applications.gr", GpuReading::kSmClockLimit, 1},
    {"power.draw", GpuReading::kPower, 1000},
    {"power.draw.instant", GpuReading::kPower, 1000},
    {"enforced.power.limit", GpuReading::kPowerLimit, 1000},
    {"power.limit", GpuReading::kPowerLimit, 1000},
    {"temperature.gpu", GpuReading::kTemperature, 1},
    {"temperature.memory", GpuReading::kMemoryTemperature, 1},
    {"memory.used", GpuReading::kMemoryUsed, kMegabyte},
    {"ecc.errors.corrected.volatile.total", GpuReading::kEccCorrected, 1},
    {"ecc.errors.uncorrected.volatile.total", GpuReading::kEccUncorrected, 1},
    {"pcie.link.width.current", GpuReading::kPcieWidth, 1},
    {"pcie.link.width.max", GpuReading::kPcieWidthMost, 1},
    {"pcie.link.gen.current", GpuReading::kPcieGeneration, 1},
    {"pcie.link.gen.gpucurrent", GpuReading::kPcieGeneration, 1},
    {"clocks_event_reasons.active", GpuReading::kReasons, 1},
    {"clocks_throttle_reasons.active", GpuReading::kReasons, 1},
    {"clocks_event_reasons_counters.hw_thermal_slowdown", GpuReading::kViolationThermal, 1000},
    {"clocks_event_reasons_counters.hw_power_brake_slowdown", GpuReading::kViolationPower, 1000},
};

std::string_view smi_trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

std::vector<std::string_view> smi_cells(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t comma = line.find(','); comma != line.npos; comma = line.find(',')) {
    cells.push_back(smi_trimmed(line.substr(0, comma)));
    line.remove_prefix(comma + 1);
  }
  cells.push_back(smi_trimmed(line));
  return cells;
}

// "2026/11/26 05:10:00.123", local time; nothing: it is none.
std::optional<int64_t> smi_time(std::string_view text) {
  constexpr std::string_view kForm = "dddd/dd/dd dd:dd:dd.ddd";
  if (text.size() != kForm.size()) {
    return std::nullopt;
  }
  int parts[7] = {};
  size_t part = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !is_digit : text[i] != kForm[i]) {
      return std::nullopt;
    }
    part += is_digit ? 0 : 1;
    parts[part] = is_digit ? 10 * parts[part] + (text[i] - '0') : parts[part];
  }
  constexpr int kFirstYear = 1900;
  std::tm local = {};
  local.tm_year = parts[0] - kFirstYear;
  local.tm_mon = parts[1] - 1;
  local.tm_mday = parts[2];
  local.tm_hour = parts[3];
  local.tm_min = parts[4];
  local.tm_sec = parts[5];
  local.tm_isdst = -1;
  const std::time_t seconds = std::mktime(&local);
  return seconds > 0 && seconds < kMostLogSeconds
             ? std::optional(int64_t{seconds} * 1'000'000'000 + int64_t{parts[6]} * 1'000'000)
             : std::nullopt;
}

// "450.12 W", "0x0000000000000004", "1980"; nothing: it is no number.
std::optional<double> smi_number(std::string_view text) {
  text = text.substr(0, text.find(' '));
  if (text.starts_with("0x")) {
    uint64_t bits = 0;
    const auto [end, problem] =
        std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    return problem == std::errc() && end == text.data() + text.size()
               ? std::optional(static_cast<double>(bits))
               : std::nullopt;
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr double kMost = 1e15;
  return problem == std::errc() && end == text.data() + text.size() && value >= 0 && value < kMost
             ? std::optional(value)
             : std::nullopt;
}

// "[N/A]", "[Not Supported]", "N/A": the GPU does not say.
bool is_not_said(std::string_view cell) {
  return cell.starts_with('[') || cell == "N/A" || cell.empty();
}

class SmiReader {
 public:
  SmiReader(const std::string& file, const std::string& host) : file_(file) {
    text_ = std::string(kTelemetryMagic) + "\n" + text_of(FactLine{"source", "nvidia-smi"});
    text_ += host.empty() ? "" : text_of(FactLine{"host", host});
  }

  // Nothing: it is well.
  std::optional<ReadError> take(std::string_view line, uint64_t number) {
    if (smi_trimmed(line).empty() || (number > 1 && line == header_)) {
      return std::nullopt;
    }
    return columns_.empty() ? take_header(line, number) : take_row(smi_cells(line), number);
  }

  Result<std::string> finish() && {
    return columns_.empty() ? Result<std::string>(wrong(1, kHeaderExpected))
                            : Result<std::string>(std::move(text_));
  }

 private:
  static constexpr std::string_view kHeaderExpected =
      "a header with timestamp and uuid: nvidia-smi --query-gpu=timestamp,uuid,.. --format=csv";

  ReadError wrong(uint64_t number, std::string_view expected) const {
    return {file_, number, fmt::format("expected {}", expected), true};
  }

  std::optional<ReadError> take_header(std::string_view line, uint64_t number) {
    header_ = line;
    for (const std::string_view cell : smi_cells(line)) {
      columns_.emplace_back(smi_trimmed(cell.substr(0, cell.find(" ["))));
    }
    const auto has = [&](const char* name) {
      return std::find(columns_.begin(), columns_.end(), name) != columns_.end();
    };
    return has("timestamp") && (has("uuid") || has("gpu_uuid"))
               ? std::nullopt
               : std::optional(wrong(number, kHeaderExpected));
  }

  std::optional<ReadError> take_row(const std::vector<std::string_view>& cells, uint64_t number) {
    if (cells.size() != columns_.size()) {
      return wrong(number, fmt::format("{} cells, as in the header", columns_.size()));
    }
    DeviceLine device;
    ReadLine read;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (std::optional<ReadError> error = take_cell(columns_[i], cells[i], number, device, read)) {
        return error;
      }
    }
    const std::optional<int> index = device_of(device);
    if (device.uuid.empty() || !index) {
      return wrong(number, fmt::format("the UUID of one of up to {} GPUs", kMostTelemetryDevices));
    }
    read.device = *index;
    text_ += text_of(read);
    return std::nullopt;
  }

  std::optional<ReadError> take_cell(const std::string& column, std::string_view cell,
                                     uint64_t number, DeviceLine& device, ReadLine& read) const {
    if (column == "timestamp") {
      const std::optional<int64_t> time = smi_time(cell);
      read.time = time.value_or(0);
      return time ? std::nullopt
                  : std::optional(wrong(number, "a time such as 2026/11/26 05:10:00.123"));
    }
    if (column == "uuid" || column == "gpu_uuid") {
      device.uuid = cell;
    } else if (column == "pci.bus_id" || column == "gpu_bus_id") {
      device.pci = plain_pci(cell);
    } else if (column == "name" || column == "gpu_name") {
      device.name = cell;
    }
    const auto* const known =
        std::find_if(std::begin(kSmiColumns), std::end(kSmiColumns),
                     [&](const SmiColumn& each) { return each.name == column; });
    if (known == std::end(kSmiColumns) || is_not_said(cell)) {
      return std::nullopt;
    }
    const std::optional<double> value = smi_number(cell);
    constexpr double kMostReading = 1e18;  // of what a telemetry file may hold
    if (!value || *value * known->scale > kMostReading) {
      return wrong(number, fmt::format("a number for {}", column));
    }
    const bool is_there =
        std::any_of(read.values.begin(), read.values.end(),
                    [&](const auto& each) { return each.first == known->reading; });
    if (!is_there) {
      read.values.emplace_back(known->reading, std::llround(*value * known->scale));
    }
    return std::nullopt;
  }

  // Its number in the file, where it gets a line of its own first.
  std::optional<int> device_of(DeviceLine& device) {
    const auto known = std::find(uuids_.begin(), uuids_.end(), device.uuid);
    const auto index = static_cast<int>(known - uuids_.begin());
    if (known == uuids_.end() && index < kMostTelemetryDevices) {
      uuids_.push_back(device.uuid);
      device.device = index;
      text_ += text_of(device);
    }
    return index < kMostTelemetryDevices ? std::optional(index) : std::nullopt;
  }

  std::string file_;
  std::string text_;
  std::string header_;
  std::vector<std::string> columns_;
  std::vector<std::string> uuids_;
};

}  // namespace

Result<std::string> telemetry_of_nvidia_smi(std::string_view text, const std::string& file,
                                            const std::string& host) {
  return read_lines(text, file, SmiReader(file, host));
}

}  // namespace traintrace
