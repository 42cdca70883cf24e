// The runtime's own state about devices: what cudaSetDevice, cudaSetValidDevices, cudaDeviceReset
// change.
#pragma once
#include <vector>

#include "cudart/status.h"

namespace simgpu::cudart {

// Destroys the device's primary context and forgets this runtime's hold on it.
Status reset_device(int device);

// In order of preference; empty: all.
void set_valid_devices(std::vector<int> valid);

}  // namespace simgpu::cudart
