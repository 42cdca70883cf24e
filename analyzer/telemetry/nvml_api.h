// What we call of NVML (libnvidia-ml.so.1): names, layouts and numbers as NVIDIA's NVML API
// reference documents them.  nvml.h comes neither with the CUDA toolkit everywhere nor with
// Debian, and these parts have not changed since they exist.
#pragma once

// Vendors' names keep their spelling.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

using nvmlDevice_t = struct nvmlDevice_st*;
using nvmlEventSet_t = struct nvmlEventSet_st*;

enum nvmlReturn_t : int {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NO_PERMISSION = 4,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_UNKNOWN = 999,
};

enum nvmlClockType_t : int { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
enum nvmlTemperatureSensors_t : int { NVML_TEMPERATURE_GPU = 0 };
enum nvmlMemoryErrorType_t : int {
  NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
  NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
};
enum nvmlEccCounterType_t : int { NVML_VOLATILE_ECC = 0 };
enum nvmlPerfPolicyType_t : int {
  NVML_PERF_POLICY_POWER = 0,
  NVML_PERF_POLICY_THERMAL = 1,
  NVML_PERF_POLICY_SYNC_BOOST = 2,
};

// Bits of nvmlDeviceGetCurrentClocksEventReasons.
inline constexpr unsigned long long nvmlClocksEventReasonGpuIdle = 0x1;
inline constexpr unsigned long long nvmlClocksEventReasonApplicationsClocksSetting = 0x2;
inline constexpr unsigned long long nvmlClocksEventReasonSwPowerCap = 0x4;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwSlowdown = 0x8;
inline constexpr unsigned long long nvmlClocksEventReasonSyncBoost = 0x10;
inline constexpr unsigned long long nvmlClocksEventReasonSwThermalSlowdown = 0x20;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwThermalSlowdown = 0x40;
inline constexpr unsigned long long nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80;

inline constexpr unsigned long long nvmlEventTypeXidCriticalError = 0x8;

struct nvmlPciInfo_t {
  char busIdLegacy[16];  // 0000:1B:00.0
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
  char busId[32];  // 00000000:1B:00.0
};

struct nvmlMemory_t {  // bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlProcessInfo_v1_t {
  unsigned pid;
  unsigned long long usedGpuMemory;  // bytes; all ones: not told
};

struct nvmlViolationTime_t {
  unsigned long long referenceTime;  // us
  unsigned long long violationTime;  // ns
};

struct nvmlEventData_t {
  nvmlDevice_t device;
  unsigned long long eventType;
  unsigned long long eventData;  // of an Xid its number
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
};

union nvmlValue_t {
  double dVal;
  unsigned uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
  long long sllVal;
};

struct nvmlFieldValue_t {
  unsigned fieldId;
  unsigned scopeId;
  long long timestamp;
  long long latencyUsec;
  unsigned valueType;
  nvmlReturn_t nvmlReturn;
  nvmlValue_t value;
};
// Sums over all links; the values are ullVals.
inline constexpr unsigned NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38;
inline constexpr unsigned NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL = 45;
inline constexpr unsigned NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL = 52;
inline constexpr unsigned NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL = 59;
inline constexpr unsigned NVML_FI_DEV_MEMORY_TEMP = 82;  // a uiVal, degrees

using nvmlInit_v2_t = nvmlReturn_t();
using nvmlDeviceGetCount_v2_t = nvmlReturn_t(unsigned*);
using nvmlDeviceGetHandleByIndex_v2_t = nvmlReturn_t(unsigned, nvmlDevice_t*);
using nvmlDeviceGetText_t = nvmlReturn_t(nvmlDevice_t, char*, unsigned);  // UUID, name
using nvmlDeviceGetPciInfo_v3_t = nvmlReturn_t(nvmlDevice_t, nvmlPciInfo_t*);
using nvmlDeviceGetClock_t = nvmlReturn_t(nvmlDevice_t, nvmlClockType_t, unsigned*);  // MHz
using nvmlDeviceGetReasons_t = nvmlReturn_t(nvmlDevice_t, unsigned long long*);
using nvmlDeviceGetViolationStatus_t = nvmlReturn_t(nvmlDevice_t, nvmlPerfPolicyType_t,
                                                    nvmlViolationTime_t*);
using nvmlDeviceGetNumber_t = nvmlReturn_t(nvmlDevice_t, unsigned*);
using nvmlDeviceGetEnergy_t = nvmlReturn_t(nvmlDevice_t, unsigned long long*);  // mJ
using nvmlDeviceGetTemperature_t = nvmlReturn_t(nvmlDevice_t, nvmlTemperatureSensors_t, unsigned*);
using nvmlDeviceGetFieldValues_t = nvmlReturn_t(nvmlDevice_t, int, nvmlFieldValue_t*);
using nvmlDeviceGetTotalEccErrors_t = nvmlReturn_t(nvmlDevice_t, nvmlMemoryErrorType_t,
                                                   nvmlEccCounterType_t, unsigned long long*);
// Rows remapped because of corrected and of uncorrected errors; whether a remapping waits for a
// reset, and whether one has failed.
using nvmlDeviceGetRemappedRows_t = nvmlReturn_t(nvmlDevice_t, unsigned*, unsigned*, unsigned*,
                                                 unsigned*);
using nvmlDeviceGetMemoryInfo_t = nvmlReturn_t(nvmlDevice_t, nvmlMemory_t*);
using nvmlSystemGetText_t = nvmlReturn_t(char*, unsigned);  // version of the driver
using nvmlErrorString_t = const char*(nvmlReturn_t);
using nvmlEventSetCreate_t = nvmlReturn_t(nvmlEventSet_t*);
using nvmlDeviceRegisterEvents_t = nvmlReturn_t(nvmlDevice_t, unsigned long long, nvmlEventSet_t);
using nvmlEventSetWait_v2_t = nvmlReturn_t(nvmlEventSet_t, nvmlEventData_t*, unsigned);

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
