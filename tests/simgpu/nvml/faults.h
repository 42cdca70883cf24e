// What is wrong with the devices, as SIMGPU_NVML says: FAULT[@DEVICE][=VALUE],..
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simgpu {

enum class Fault {
  kThermal,     // thermal[=MS]: the clock is held down half of the time by heat, for so long
  kPowerBrake,  // power-brake: the same by the power supply's signal
  kPowerCap,    // power-cap: at the power limit, as large GEMMs are
  kLowPower,    // low-power-cap: capped far below the power limit
  kClock,       // clock=MHZ: a lower application clock was set
  kEcc,         // ecc[=N]: N uncorrected errors, after a while, and a row is remapped
  kXid,         // xid=NUMBER: an event, after a while
  kForeign,     // foreign=MIB: memory that a process of somebody else uses
  kWidth,       // width=LANES: the PCIe link has so many
  kReplay,      // replay=N: so many PCIe replays, after a while
  kNvlink,      // nvlink=N: so many errors of each sort on its NVLinks, after a while
  kHang,        // hang=FUNCTION: its call never returns, after a while
  kInit,        // init=CODE: nvmlInit returns that
};

struct DeviceFault {
  Fault fault;
  int device;  // -1: all
  int64_t value;
  std::string function;
};

// Read once.  What is not understood is told on stderr.
const std::vector<DeviceFault>& device_faults();
// Null: it has no such fault.
const DeviceFault* fault_of(int device, Fault fault);
// Whether "a while" (SIMGPU_NVML_AFTER_MS, 0) has passed since the library was loaded; or, if one
// is named, whether the file SIMGPU_NVML_AFTER_FILE is there.
bool has_begun();
int64_t elapsed_ms();

}  // namespace simgpu
