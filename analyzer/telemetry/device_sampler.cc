#include "analyzer/telemetry/device_sampler.h"

#include <ctime>

namespace traintrace {
namespace {

void put(ReadLine& into, GpuReading reading, uint64_t value) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  if (value <= kMost) {  // else it is how some drivers say that they do not know
    into.values.emplace_back(reading, static_cast<int64_t>(value));
  }
}

// Calls `function` with the handle and what it is to fill in.  The name is that of NVML.
template <class Function, class... Arguments>
bool ask(const SampledDevice& from, const char* name, Function* function, Arguments... arguments) {
  if (function == nullptr) {
    return false;
  }
  const Asking asking(from.slot, name, from.device);
  return function(from.handle, arguments...) == NVML_SUCCESS;
}

void read_violation(const SampledDevice& from, nvmlPerfPolicyType_t policy, GpuReading reading,
                    ReadLine& into) {
  nvmlViolationTime_t time = {};
  if (ask(from, "nvmlDeviceGetViolationStatus", from.nvml.violation, policy, &time)) {
    put(into, reading, time.violationTime);
  }
}

void read_number(const SampledDevice& from, const char* name, nvmlDeviceGetNumber_t* function,
                 GpuReading reading, ReadLine& into) {
  unsigned value = 0;
  if (ask(from, name, function, &value)) {
    put(into, reading, value);
  }
}

void read_ecc(const SampledDevice& from, nvmlMemoryErrorType_t type, GpuReading reading,
              ReadLine& into) {
  unsigned long long errors = 0;
  if (ask(from, "nvmlDeviceGetTotalEccErrors", from.nvml.ecc, type, NVML_VOLATILE_ECC, &errors)) {
    put(into, reading, errors);
  }
}

void read_clock(const SampledDevice& from, const char* name, nvmlDeviceGetClock_t* function,
                nvmlClockType_t type, GpuReading reading, ReadLine& into) {
  unsigned mhz = 0;
  if (ask(from, name, function, type, &mhz)) {
    put(into, reading, mhz);
  }
}

}  // namespace

Asking::Asking(QuerySlot& slot, const char* function, int device) : slot_(slot) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  slot.function.store(function);
  slot.device.store(device);
  slot.since_ns.store(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

void read_clocks(const SampledDevice& from, ReadLine& into) {
  read_violation(from, NVML_PERF_POLICY_POWER, GpuReading::kViolationPower, into);
  read_violation(from, NVML_PERF_POLICY_THERMAL, GpuReading::kViolationThermal, into);
  read_violation(from, NVML_PERF_POLICY_SYNC_BOOST, GpuReading::kViolationSync, into);
  unsigned long long bits = 0;
  if (ask(from, "nvmlDeviceGetCurrentClocksEventReasons", from.nvml.reasons, &bits)) {
    put(into, GpuReading::kReasons, bits);
  }
  read_clock(from, "nvmlDeviceGetClockInfo", from.nvml.clock, NVML_CLOCK_SM, GpuReading::kSmClock,
             into);
  read_clock(from, "nvmlDeviceGetClockInfo", from.nvml.clock, NVML_CLOCK_MEM,
             GpuReading::kMemoryClock, into);
  read_clock(from, "nvmlDeviceGetApplicationsClock", from.nvml.application_clock, NVML_CLOCK_SM,
             GpuReading::kSmClockLimit, into);
  read_number(from, "nvmlDeviceGetPowerUsage", from.nvml.power, GpuReading::kPower, into);
  unsigned long long millijoules = 0;
  if (ask(from, "nvmlDeviceGetTotalEnergyConsumption", from.nvml.energy, &millijoules)) {
    put(into, GpuReading::kEnergy, millijoules);
  }
}

void read_states(const SampledDevice& from, ReadLine& into) {
  unsigned degrees = 0;
  if (ask(from, "nvmlDeviceGetTemperature", from.nvml.temperature, NVML_TEMPERATURE_GPU,
          &degrees)) {
    put(into, GpuReading::kTemperature, degrees);
  }
  nvmlFieldValue_t field = {};
  field.fieldId = NVML_FI_DEV_MEMORY_TEMP;
  if (ask(from, "nvmlDeviceGetFieldValues", from.nvml.fields, 1, &field) &&
      field.nvmlReturn == NVML_SUCCESS) {
    put(into, GpuReading::kMemoryTemperature, field.value.uiVal);
  }
  nvmlMemory_t memory = {};
  if (ask(from, "nvmlDeviceGetMemoryInfo", from.nvml.memory, &memory)) {
    put(into, GpuReading::kMemoryUsed, memory.used);
  }
}

void read_faults(const SampledDevice& from, ReadLine& into) {
  read_number(from, "nvmlDeviceGetEnforcedPowerLimit", from.nvml.power_limit,
              GpuReading::kPowerLimit, into);
  read_ecc(from, NVML_MEMORY_ERROR_TYPE_CORRECTED, GpuReading::kEccCorrected, into);
  read_ecc(from, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, GpuReading::kEccUncorrected, into);
  unsigned rows[4] = {};
  if (ask(from, "nvmlDeviceGetRemappedRows", from.nvml.rows, &rows[0], &rows[1], &rows[2],
          &rows[3])) {
    put(into, GpuReading::kRowsCorrected, rows[0]);
    put(into, GpuReading::kRowsUncorrected, rows[1]);
    put(into, GpuReading::kRowsPending, rows[2]);
    put(into, GpuReading::kRowsFailed, rows[3]);
  }
  read_number(from, "nvmlDeviceGetPcieReplayCounter", from.nvml.replays, GpuReading::kPcieReplays,
              into);
  read_number(from, "nvmlDeviceGetCurrPcieLinkWidth", from.nvml.width, GpuReading::kPcieWidth,
              into);
  read_number(from, "nvmlDeviceGetMaxPcieLinkWidth", from.nvml.width_most,
              GpuReading::kPcieWidthMost, into);
  read_number(from, "nvmlDeviceGetCurrPcieLinkGeneration", from.nvml.generation,
              GpuReading::kPcieGeneration, into);
}

void read_nvlink(const SampledDevice& from, ReadLine& into) {
  constexpr std::pair<unsigned, GpuReading> kFields[] = {
      {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, GpuReading::kNvlinkFlits},
      {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, GpuReading::kNvlinkData},
      {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, GpuReading::kNvlinkReplays},
      {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, GpuReading::kNvlinkRecoveries},
  };
  constexpr int kFieldCount = std::size(kFields);
  nvmlFieldValue_t values[kFieldCount] = {};
  for (int i = 0; i < kFieldCount; ++i) {
    values[i].fieldId = kFields[i].first;
  }
  if (!ask(from, "nvmlDeviceGetFieldValues", from.nvml.fields, kFieldCount, &values[0])) {
    return;
  }
  for (int i = 0; i < kFieldCount; ++i) {
    if (values[i].nvmlReturn == NVML_SUCCESS) {
      put(into, kFields[i].second, values[i].value.ullVal);
    }
  }
}

}  // namespace traintrace
