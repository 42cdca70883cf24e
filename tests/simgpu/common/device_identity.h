// What tells one device from another, in the driver and in NVML alike.
#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

namespace simgpu {

// The same in every process, different for every device.
inline std::array<char, 16> device_uuid(int device) {
  std::array<char, 16> uuid;
  std::memcpy(uuid.data(), "simgpu-device-\0\0", uuid.size());
  uuid[15] = static_cast<char>(device);
  return uuid;
}

// The devices sit in slot 0 of buses 1, 2, ..
inline int device_bus(int device) {
  return 1 + device;
}

}  // namespace simgpu
