#include "nvml/faults.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace simgpu {
namespace {

struct Name {
  std::string_view name;
  Fault fault;
  int64_t usual;  // VALUE where none is given
};

constexpr Name kNames[] = {
    {"thermal", Fault::kThermal, 0},    {"power-brake", Fault::kPowerBrake, 0},
    {"power-cap", Fault::kPowerCap, 0}, {"low-power-cap", Fault::kLowPower, 0},
    {"clock", Fault::kClock, 1200},     {"ecc", Fault::kEcc, 1},
    {"xid", Fault::kXid, 79},           {"foreign", Fault::kForeign, 4096},
    {"width", Fault::kWidth, 8},        {"replay", Fault::kReplay, 1000},
    {"nvlink", Fault::kNvlink, 100},    {"hang", Fault::kHang, 0},
    {"init", Fault::kInit, 9},
};

bool read_number(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// "xid@1=79"
bool parse(std::string_view text, DeviceFault& fault) {
  const size_t equals = text.find('=');
  const std::string_view value = equals == text.npos ? "" : text.substr(equals + 1);
  std::string_view name = text.substr(0, equals);
  fault.device = -1;
  if (const size_t at = name.find('@'); at != name.npos) {
    int64_t device = 0;
    if (!read_number(name.substr(at + 1), device)) {
      return false;
    }
    fault.device = static_cast<int>(device);
    name = name.substr(0, at);
  }
  for (const Name& known : kNames) {
    if (known.name == name) {
      fault.fault = known.fault;
      fault.value = known.usual;
      fault.function = value;
      return value.empty() || known.fault == Fault::kHang || read_number(value, fault.value);
    }
  }
  return false;
}

std::vector<DeviceFault> read_faults() {
  std::vector<DeviceFault> faults;
  const char* const given = getenv("SIMGPU_NVML");
  for (std::string_view rest = given != nullptr ? given : ""; !rest.empty();) {
    const size_t comma = rest.find(',');
    DeviceFault fault = {};
    if (parse(rest.substr(0, comma), fault)) {
      faults.push_back(fault);
    } else {
      fprintf(stderr, "simgpu: SIMGPU_NVML: '%.*s' is not FAULT[@DEVICE][=VALUE]\n",
              static_cast<int>(std::min(comma, rest.size())), rest.data());
    }
    rest = comma == rest.npos ? "" : rest.substr(comma + 1);
  }
  return faults;
}

const std::chrono::steady_clock::time_point g_loaded = std::chrono::steady_clock::now();

}  // namespace

const std::vector<DeviceFault>& device_faults() {
  static const std::vector<DeviceFault>& faults = *new std::vector<DeviceFault>(read_faults());
  return faults;
}

const DeviceFault* fault_of(int device, Fault fault) {
  for (const DeviceFault& each : device_faults()) {
    if (each.fault == fault && (each.device < 0 || each.device == device)) {
      return &each;
    }
  }
  return nullptr;
}

int64_t elapsed_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               g_loaded)
      .count();
}

bool has_begun() {
  if (const char* const file = getenv("SIMGPU_NVML_AFTER_FILE"); file != nullptr) {
    return access(file, F_OK) == 0;
  }
  const char* const after = getenv("SIMGPU_NVML_AFTER_MS");
  return elapsed_ms() >= (after != nullptr ? atoll(after) : 0);
}

}  // namespace simgpu
