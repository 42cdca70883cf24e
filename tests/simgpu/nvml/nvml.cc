// libnvidia-ml.so.1: counters of devices that are well, unless SIMGPU_NVML says otherwise.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "analyzer/telemetry/nvml_api.h"
#include "common/device_identity.h"
#include "common/entry.h"
#include "nvml/faults.h"

using namespace simgpu;

namespace {

constexpr int kMostDevices = 16;
constexpr unsigned kSmMhz = 1980, kMemoryMhz = 2619, kHeldMhz = 1200;
constexpr unsigned kLimitMilliwatts = 700000, kUsualMilliwatts = 450000, kLowMilliwatts = 300000;
constexpr unsigned kLanes = 16, kGeneration = 5, kDegrees = 55, kHotDegrees = 91;
constexpr unsigned long long kFixedBytes = 512ULL << 20;  // what the driver keeps for itself

int device_count() {
  const char* const count = getenv("SIMGPU_DEVICES");
  const int number = count != nullptr ? atoi(count) : 8;
  return number > 0 && number <= kMostDevices ? number : 8;
}

// Handles are numbers of devices, from 1: as the real ones nothing to look into.
nvmlDevice_t handle_of(int device) {
  return reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(device) + 1);  // NOLINT
}

int index_of(nvmlDevice_t device) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1;
}

bool is_device(nvmlDevice_t device) {
  return index_of(device) >= 0 && index_of(device) < device_count();
}

bool has(nvmlDevice_t device, Fault fault) {
  return fault_of(index_of(device), fault) != nullptr;
}

int64_t value_of(nvmlDevice_t device, Fault fault, int64_t usual) {
  const DeviceFault* const found = fault_of(index_of(device), fault);
  return found != nullptr ? found->value : usual;
}

// How long ago a device that was hot has cooled down; 0: it has not.
int64_t cool_for_ms(nvmlDevice_t device) {
  const DeviceFault* const heat = fault_of(index_of(device), Fault::kThermal);
  return heat != nullptr && heat->value > 0 ? std::max<int64_t>(elapsed_ms() - heat->value, 0) : 0;
}

bool is_hot(nvmlDevice_t device) {
  return has(device, Fault::kThermal) && cool_for_ms(device) == 0;
}

bool is_held(nvmlDevice_t device) {
  return is_hot(device) || has(device, Fault::kPowerBrake);
}

bool is_of_nvlink(unsigned field) {
  return field == NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL ||
         field == NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL ||
         field == NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL ||
         field == NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL;
}

// Counters go on when a process ends.
unsigned long long ns_since_boot() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<unsigned long long>(now.tv_sec) * 1000000000ULL +
         static_cast<unsigned long long>(now.tv_nsec);
}

void memory_of(int device, size_t& used, size_t& total) {
  using Memory = void(int, size_t*, size_t*);
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static void* const call = driver != nullptr ? dlsym(driver, "simgpuDeviceMemory") : nullptr;
  if (call != nullptr) {
    reinterpret_cast<Memory*>(call)(device, &used, &total);
  }
}

unsigned users_of(int device, unsigned most, pid_t* processes, size_t* bytes) {
  using Users = unsigned(int, unsigned, pid_t*, size_t*);
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static void* const call = driver != nullptr ? dlsym(driver, "simgpuDeviceUsers") : nullptr;
  return call == nullptr ? 0 : reinterpret_cast<Users*>(call)(device, most, processes, bytes);
}

void hang_if_asked(int device, const char* function) {
  const DeviceFault* const fault = fault_of(device, Fault::kHang);
  while (fault != nullptr && fault->function == function && has_begun()) {
    pause();
  }
}

template <class Out, class Value>
nvmlReturn_t give(Out* out, Value value) {
  if (out == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *out = static_cast<Out>(value);
  return NVML_SUCCESS;
}

nvmlReturn_t give_text(char* out, unsigned length, const std::string& text) {
  if (out == nullptr || length <= text.size()) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

}  // namespace

// First statements of what is asked of a device.
#define SIMGPU_NVML_DEVICE(device)      \
  SIMGPU_ENTER(nvmlReturn_t);           \
  if (!is_device(device)) {             \
    return NVML_ERROR_INVALID_ARGUMENT; \
  }                                     \
  hang_if_asked(index_of(device), __func__)

extern "C" {

nvmlReturn_t nvmlInit_v2() {
  SIMGPU_ENTER(nvmlReturn_t);
  hang_if_asked(0, __func__);
  const DeviceFault* const fault = fault_of(0, Fault::kInit);
  return fault != nullptr ? static_cast<nvmlReturn_t>(fault->value) : NVML_SUCCESS;
}

nvmlReturn_t nvmlInit() {
  return nvmlInit_v2();
}

nvmlReturn_t nvmlShutdown() {
  SIMGPU_ENTER(nvmlReturn_t);
  return NVML_SUCCESS;
}

const char* nvmlErrorString(nvmlReturn_t result) {
  return result == NVML_SUCCESS                   ? "Success"
         : result == NVML_ERROR_NOT_SUPPORTED     ? "Not Supported"
         : result == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded"
                                                  : "Unknown Error";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  SIMGPU_ENTER(nvmlReturn_t);
  return give(count, device_count());
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  SIMGPU_ENTER(nvmlReturn_t);
  if (device == nullptr || index >= static_cast<unsigned>(device_count())) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *device = handle_of(static_cast<int>(index));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  SIMGPU_ENTER(nvmlReturn_t);
  unsigned domain = 0;
  unsigned bus = 0;
  if (bus_id == nullptr || device == nullptr ||
      sscanf(bus_id, "%x:%x:", &domain, &bus) != 2) {  // NOLINT
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  for (int index = 0; index < device_count(); ++index) {
    if (domain == 0 && bus == static_cast<unsigned>(device_bus(index))) {
      *device = handle_of(index);
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  SIMGPU_NVML_DEVICE(device);
  return give(index, index_of(device));
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  SIMGPU_NVML_DEVICE(device);
  const char* const given = getenv("SIMGPU_DEVICE_NAME");
  return give_text(name, length, given != nullptr ? given : "simgpu H");
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  SIMGPU_NVML_DEVICE(device);
  std::string text = "GPU-";
  size_t at = 0;
  for (const char byte : device_uuid(index_of(device))) {
    char hex[3];
    snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(byte));
    text += at == 4 || at == 6 || at == 8 || at == 10 ? "-" : "";
    text += hex;
    ++at;
  }
  return give_text(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* info) {
  SIMGPU_NVML_DEVICE(device);
  if (info == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *info = {};
  info->bus = static_cast<unsigned>(device_bus(index_of(device)));
  snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "0000:%02X:00.0", info->bus);
  snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", info->bus);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* mhz) {
  SIMGPU_NVML_DEVICE(device);
  const auto set = static_cast<unsigned>(value_of(device, Fault::kClock, kSmMhz));
  return give(mhz, type == NVML_CLOCK_MEM ? kMemoryMhz : is_held(device) ? kHeldMhz : set);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* mhz) {
  SIMGPU_NVML_DEVICE(device);
  return give(mhz, type == NVML_CLOCK_MEM ? kMemoryMhz : kSmMhz);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
                                            unsigned* mhz) {
  SIMGPU_NVML_DEVICE(device);
  return give(mhz, type == NVML_CLOCK_MEM ? kMemoryMhz : value_of(device, Fault::kClock, kSmMhz));
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long* reasons) {
  SIMGPU_NVML_DEVICE(device);
  unsigned long long bits = 0;
  bits |= is_hot(device) ? nvmlClocksThrottleReasonHwThermalSlowdown : 0;
  bits |= has(device, Fault::kPowerBrake) ? nvmlClocksThrottleReasonHwPowerBrakeSlowdown : 0;
  bits |= is_held(device) ? nvmlClocksThrottleReasonHwSlowdown : 0;
  bits |= has(device, Fault::kPowerCap) || has(device, Fault::kLowPower)
              ? nvmlClocksEventReasonSwPowerCap
              : 0;
  bits |= has(device, Fault::kClock) ? nvmlClocksEventReasonApplicationsClocksSetting : 0;
  size_t used = 0;
  size_t total = 0;
  memory_of(index_of(device), used, total);
  return give(reasons, bits == 0 && used == 0 ? nvmlClocksEventReasonGpuIdle : bits);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy,
                                          nvmlViolationTime_t* time) {
  SIMGPU_NVML_DEVICE(device);
  if (time == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const bool power = has(device, Fault::kPowerBrake) || has(device, Fault::kPowerCap) ||
                     has(device, Fault::kLowPower);
  const bool counts = policy == NVML_PERF_POLICY_THERMAL
                          ? has(device, Fault::kThermal)
                          : policy == NVML_PERF_POLICY_POWER && power;
  time->referenceTime = ns_since_boot() / 1000;
  const auto cool_ns = static_cast<unsigned long long>(cool_for_ms(device)) * 1000000ULL;
  const bool is_heat = policy == NVML_PERF_POLICY_THERMAL;
  time->violationTime = counts ? (ns_since_boot() - (is_heat ? cool_ns : 0)) / 2 : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts) {
  SIMGPU_NVML_DEVICE(device);
  const bool low = has(device, Fault::kLowPower) || is_held(device);
  return give(milliwatts, has(device, Fault::kPowerCap) ? kLimitMilliwatts
                          : low                         ? kLowMilliwatts
                                                        : kUsualMilliwatts);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned* milliwatts) {
  SIMGPU_NVML_DEVICE(device);
  return give(milliwatts, kLimitMilliwatts);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* mj) {
  unsigned milliwatts = 0;
  SIMGPU_NVML_DEVICE(device);
  nvmlDeviceGetPowerUsage(device, &milliwatts);
  return give(mj, ns_since_boot() / 1000000 * milliwatts / 1000);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t,
                                      unsigned* degrees) {
  SIMGPU_NVML_DEVICE(device);
  return give(degrees, is_hot(device) ? kHotDegrees : kDegrees);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  SIMGPU_NVML_DEVICE(device);
  for (int i = 0; i < count; ++i) {
    const bool known = values[i].fieldId == NVML_FI_DEV_MEMORY_TEMP;
    if (is_of_nvlink(values[i].fieldId)) {
      constexpr unsigned kUnsignedLongLong = 3;
      values[i].nvmlReturn = NVML_SUCCESS;
      values[i].valueType = kUnsignedLongLong;
      values[i].value.ullVal =
          has_begun() ? static_cast<unsigned long long>(value_of(device, Fault::kNvlink, 0)) : 0;
      continue;
    }
    values[i].nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    values[i].valueType = 1;
    values[i].value.uiVal = is_hot(device) ? kHotDegrees : kDegrees;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t, unsigned long long* errors) {
  SIMGPU_NVML_DEVICE(device);
  const bool counts = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED && has_begun();
  return give(errors, counts ? value_of(device, Fault::kEcc, 0) : 0);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned* corrected,
                                       unsigned* uncorrected, unsigned* pending, unsigned* failed) {
  SIMGPU_NVML_DEVICE(device);
  const bool remapped = has(device, Fault::kEcc) && has_begun();
  give(corrected, 0);
  give(failed, 0);
  give(pending, remapped ? 1 : 0);
  return give(uncorrected, remapped ? 1 : 0);
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned* replays) {
  SIMGPU_NVML_DEVICE(device);
  return give(replays, has_begun() ? value_of(device, Fault::kReplay, 0) : 0);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned* lanes) {
  SIMGPU_NVML_DEVICE(device);
  return give(lanes, value_of(device, Fault::kWidth, kLanes));
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned* lanes) {
  SIMGPU_NVML_DEVICE(device);
  return give(lanes, kLanes);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned* generation) {
  SIMGPU_NVML_DEVICE(device);
  return give(generation, kGeneration);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  SIMGPU_NVML_DEVICE(device);
  if (memory == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  size_t used = 0;
  size_t total = 0;
  memory_of(index_of(device), used, total);
  const auto foreign = static_cast<unsigned long long>(value_of(device, Fault::kForeign, 0)) << 20;
  memory->used = used + kFixedBytes + foreign;
  memory->total = total + kFixedBytes + foreign;
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

// Of the name without a number, which has their first layout.  SIMGPU_NVML's foreign process is 1.
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                  nvmlProcessInfo_v1_t* processes) {
  SIMGPU_NVML_DEVICE(device);
  constexpr unsigned kMost = 64;
  pid_t pids[kMost];
  size_t bytes[kMost];
  if (count == nullptr || (*count != 0 && processes == nullptr)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  unsigned found = std::min(users_of(index_of(device), kMost - 1, pids, bytes), kMost - 1);
  if (has(device, Fault::kForeign)) {
    pids[found] = 1;
    bytes[found++] = static_cast<size_t>(value_of(device, Fault::kForeign, 0)) << 20;
  }
  const unsigned room = *count;
  *count = found;
  for (unsigned i = 0; i < std::min(found, room); ++i) {
    processes[i] = {static_cast<unsigned>(pids[i]), bytes[i]};
  }
  return found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

// SIMGPU_DIFFERS(nvmlEventSet*, nvmlDeviceRegisterEvents): there is one set, for all devices, and
// no events but the Xids of SIMGPU_NVML.
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  SIMGPU_ENTER(nvmlReturn_t);
  static char only = 0;
  if (set == nullptr) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *set = reinterpret_cast<nvmlEventSet_t>(&only);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t) {
  SIMGPU_ENTER(nvmlReturn_t);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long, nvmlEventSet_t) {
  SIMGPU_NVML_DEVICE(device);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t, nvmlEventData_t* data, unsigned timeout_ms) {
  SIMGPU_ENTER(nvmlReturn_t);
  static int given[kMostDevices] = {};
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  constexpr useconds_t kPollUs = 20000;
  do {
    for (int device = 0; device < device_count() && has_begun(); ++device) {
      const DeviceFault* const fault = fault_of(device, Fault::kXid);
      if (fault != nullptr && given[device]++ == 0) {
        *data = {handle_of(device), nvmlEventTypeXidCriticalError,
                 static_cast<unsigned long long>(fault->value), ~0U, ~0U};
        return NVML_SUCCESS;
      }
    }
    usleep(kPollUs);
  } while (std::chrono::steady_clock::now() < end);
  return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  SIMGPU_ENTER(nvmlReturn_t);
  return give_text(version, length, "simgpu");
}

}  // extern "C"
