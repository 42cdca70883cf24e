#include "analyzer/telemetry/nvml.h"

#include <dlfcn.h>

namespace traintrace {
namespace {

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

template <class Function>
bool find_function(void* library, const char* name, Function*& into) {
  into = reinterpret_cast<Function*>(dlsym(library, name));
  return into != nullptr;
}

void find_optional(void* library, Nvml& nvml) {
  find_function(library, "nvmlDeviceGetName", nvml.name);
  find_function(library, "nvmlDeviceGetPciInfo_v3", nvml.pci);
  find_function(library, "nvmlDeviceGetViolationStatus", nvml.violation);
  if (!find_function(library, "nvmlDeviceGetCurrentClocksEventReasons", nvml.reasons)) {
    find_function(library, "nvmlDeviceGetCurrentClocksThrottleReasons", nvml.reasons);
  }
  find_function(library, "nvmlDeviceGetClockInfo", nvml.clock);
  find_function(library, "nvmlDeviceGetApplicationsClock", nvml.application_clock);
  find_function(library, "nvmlDeviceGetPowerUsage", nvml.power);
  find_function(library, "nvmlDeviceGetEnforcedPowerLimit", nvml.power_limit);
  find_function(library, "nvmlDeviceGetTotalEnergyConsumption", nvml.energy);
  find_function(library, "nvmlDeviceGetTemperature", nvml.temperature);
  find_function(library, "nvmlDeviceGetFieldValues", nvml.fields);
  find_function(library, "nvmlDeviceGetTotalEccErrors", nvml.ecc);
  find_function(library, "nvmlDeviceGetRemappedRows", nvml.rows);
  find_function(library, "nvmlDeviceGetPcieReplayCounter", nvml.replays);
  find_function(library, "nvmlDeviceGetCurrPcieLinkWidth", nvml.width);
  find_function(library, "nvmlDeviceGetMaxPcieLinkWidth", nvml.width_most);
  find_function(library, "nvmlDeviceGetCurrPcieLinkGeneration", nvml.generation);
  find_function(library, "nvmlDeviceGetMemoryInfo", nvml.memory);
  find_function(library, "nvmlEventSetCreate", nvml.event_set);
  find_function(library, "nvmlDeviceRegisterEvents", nvml.register_events);
  find_function(library, "nvmlEventSetWait_v2", nvml.wait);
  find_function(library, "nvmlSystemGetDriverVersion", nvml.driver_version);
  find_function(library, "nvmlErrorString", nvml.error_text);
}

}  // namespace

bool load_nvml(Nvml& nvml, std::string& why) {
  void* const library = dlopen(kNvmlLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const problem = dlerror();
    why = problem != nullptr ? problem : kNvmlLibrary;
    return false;
  }
  find_optional(library, nvml);
  if (!find_function(library, "nvmlInit_v2", nvml.init) ||
      !find_function(library, "nvmlDeviceGetCount_v2", nvml.count) ||
      !find_function(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle) ||
      !find_function(library, "nvmlDeviceGetUUID", nvml.uuid)) {
    why = std::string(kNvmlLibrary) + " is too old: it lacks functions of CUDA 11";
    return false;
  }
  return true;
}

}  // namespace traintrace
