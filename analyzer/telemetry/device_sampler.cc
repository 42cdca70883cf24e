#include "analyzer/telemetry/device_sampler.h"

#include <ctime>

namespace traintrace {
namespace {

void put(ReadLine& into, Reading reading, uint64_t value) {
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

void read_violation(const SampledDevice& from, nvmlPerfPolicyType_t policy, Reading reading,
                    ReadLine& into) {
  nvmlViolationTime_t time = {};
  if (ask(from, "nvmlDeviceGetViolationStatus", from.nvml.violation, policy, &time)) {
    put(into, reading, time.violationTime);
  }
}

void read_number(const SampledDevice& from, const char* name, nvmlDeviceGetNumber_t* function,
                 Reading reading, ReadLine& into) {
  unsigned value = 0;
  if (ask(from, name, function, &value)) {
    put(into, reading, value);
  }
}

void read_ecc(const SampledDevice& from, nvmlMemoryErrorType_t type, Reading reading,
              ReadLine& into) {
  unsigned long long errors = 0;
  if (ask(from, "nvmlDeviceGetTotalEccErrors", from.nvml.ecc, type, NVML_VOLATILE_ECC, &errors)) {
    put(into, reading, errors);
  }
}

void read_clock(const SampledDevice& from, const char* name, nvmlDeviceGetClock_t* function,
                nvmlClockType_t type, Reading reading, ReadLine& into) {
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
  read_violation(from, NVML_PERF_POLICY_POWER, Reading::kViolationPower, into);
  read_violation(from, NVML_PERF_POLICY_THERMAL, Reading::kViolationThermal, into);
  read_violation(from, NVML_PERF_POLICY_SYNC_BOOST, Reading::kViolationSync, into);
  unsigned long long bits = 0;
  if (ask(from, "nvmlDeviceGetCurrentClocksEventReasons", from.nvml.reasons, &bits)) {
    put(into, Reading::kReasons, bits);
  }
  read_clock(from, "nvmlDeviceGetClockInfo", from.nvml.clock, NVML_CLOCK_SM, Reading::kSmClock,
             into);
  read_clock(from, "nvmlDeviceGetClockInfo", from.nvml.clock, NVML_CLOCK_MEM, Reading::kMemoryClock,
             into);
  read_clock(from, "nvmlDeviceGetApplicationsClock", from.nvml.application_clock, NVML_CLOCK_SM,
             Reading::kSmClockLimit, into);
  read_number(from, "nvmlDeviceGetPowerUsage", from.nvml.power, Reading::kPower, into);
  unsigned long long millijoules = 0;
  if (ask(from, "nvmlDeviceGetTotalEnergyConsumption", from.nvml.energy, &millijoules)) {
    put(into, Reading::kEnergy, millijoules);
  }
}

void read_states(const SampledDevice& from, ReadLine& into) {
  unsigned degrees = 0;
  if (ask(from, "nvmlDeviceGetTemperature", from.nvml.temperature, NVML_TEMPERATURE_GPU,
          &degrees)) {
    put(into, Reading::kTemperature, degrees);
  }
  nvmlFieldValue_t field = {};
  field.fieldId = NVML_FI_DEV_MEMORY_TEMP;
  if (ask(from, "nvmlDeviceGetFieldValues", from.nvml.fields, 1, &field) &&
      field.nvmlReturn == NVML_SUCCESS) {
    put(into, Reading::kMemoryTemperature, field.value.uiVal);
  }
  nvmlMemory_t memory = {};
  if (ask(from, "nvmlDeviceGetMemoryInfo", from.nvml.memory, &memory)) {
    put(into, Reading::kMemoryUsed, memory.used);
  }
}

void read_faults(const SampledDevice& from, ReadLine& into) {
  read_number(from, "nvmlDeviceGetEnforcedPowerLimit", from.nvml.power_limit, Reading::kPowerLimit,
              into);
  read_ecc(from, NVML_MEMORY_ERROR_TYPE_CORRECTED, Reading::kEccCorrected, into);
  read_ecc(from, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, Reading::kEccUncorrected, into);
  unsigned rows[4] = {};
  if (ask(from, "nvmlDeviceGetRemappedRows", from.nvml.rows, &rows[0], &rows[1], &rows[2],
          &rows[3])) {
    put(into, Reading::kRowsCorrected, rows[0]);
    put(into, Reading::kRowsUncorrected, rows[1]);
    put(into, Reading::kRowsPending, rows[2]);
    put(into, Reading::kRowsFailed, rows[3]);
  }
  read_number(from, "nvmlDeviceGetPcieReplayCounter", from.nvml.replays, Reading::kPcieReplays,
              into);
  read_number(from, "nvmlDeviceGetCurrPcieLinkWidth", from.nvml.width, Reading::kPcieWidth, into);
  read_number(from, "nvmlDeviceGetMaxPcieLinkWidth", from.nvml.width_most, Reading::kPcieWidthMost,
              into);
  read_number(from, "nvmlDeviceGetCurrPcieLinkGeneration", from.nvml.generation,
              Reading::kPcieGeneration, into);
}

void read_nvlink(const SampledDevice& from, ReadLine& into) {
  constexpr std::pair<unsigned, Reading> kFields[] = {
      {NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, Reading::kNvlinkFlits},
      {NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, Reading::kNvlinkData},
      {NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, Reading::kNvlinkReplays},
      {NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, Reading::kNvlinkRecoveries},
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
