// NVML as this machine has it.
#pragma once

#include <string>

#include "analyzer/telemetry/nvml_api.h"

namespace traintrace {

// A function is null where the library has none of that name: those of the second group are newer
// than some drivers.
struct Nvml {
  nvmlInit_v2_t* init = nullptr;
  nvmlDeviceGetCount_v2_t* count = nullptr;
  nvmlDeviceGetHandleByIndex_v2_t* handle = nullptr;
  nvmlDeviceGetText_t* uuid = nullptr;

  nvmlDeviceGetText_t* name = nullptr;
  nvmlDeviceGetPciInfo_v3_t* pci = nullptr;
  nvmlDeviceGetViolationStatus_t* violation = nullptr;
  nvmlDeviceGetReasons_t* reasons = nullptr;
  nvmlDeviceGetClock_t* clock = nullptr;
  nvmlDeviceGetClock_t* application_clock = nullptr;
  nvmlDeviceGetNumber_t* power = nullptr;
  nvmlDeviceGetNumber_t* power_limit = nullptr;
  nvmlDeviceGetEnergy_t* energy = nullptr;
  nvmlDeviceGetTemperature_t* temperature = nullptr;
  nvmlDeviceGetFieldValues_t* fields = nullptr;
  nvmlDeviceGetTotalEccErrors_t* ecc = nullptr;
  nvmlDeviceGetRemappedRows_t* rows = nullptr;
  nvmlDeviceGetNumber_t* replays = nullptr;
  nvmlDeviceGetNumber_t* width = nullptr;
  nvmlDeviceGetNumber_t* width_most = nullptr;
  nvmlDeviceGetNumber_t* generation = nullptr;
  nvmlDeviceGetMemoryInfo_t* memory = nullptr;
  nvmlEventSetCreate_t* event_set = nullptr;
  nvmlDeviceRegisterEvents_t* register_events = nullptr;
  nvmlEventSetWait_v2_t* wait = nullptr;
  nvmlSystemGetText_t* driver_version = nullptr;
  nvmlErrorString_t* error_text = nullptr;
};

// Loads libnvidia-ml.so.1 and initializes nothing.  `why`: what is missing, where it cannot be
// used; then false.
bool load_nvml(Nvml& nvml, std::string& why);

}  // namespace traintrace
