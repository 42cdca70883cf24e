#include <cuda.h>
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/device_identity.h"
#include "common/entry.h"
#include "cuda/device.h"
#include "cuda/memory.h"
#include "cuda/state.h"

using namespace simgpu;

namespace {

std::string bus_id(CUdevice device) {
  char text[32];
  snprintf(text, sizeof text, "0000:%02X:00.0", device_bus(device));
  return text;
}

CUresult attribute_value(int* value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
#define SIMGPU_ATTRIBUTE(name, figure) \
  case CU_DEVICE_ATTRIBUTE_##name:     \
    *value = static_cast<int>(figure); \
    return CUDA_SUCCESS;
#include "cuda/device_attributes.def"
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED: {
      const char* const mps = getenv("SIMGPU_MPS");
      *value = mps != nullptr && strcmp(mps, "1") == 0 ? 1 : 0;
      return CUDA_SUCCESS;
    }
    default:
      *value = 0;
      return attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  SIMGPU_DRIVER_ENTER();
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *out = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  SIMGPU_DRIVER_ENTER();
  if (!count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *count = device_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!name || length <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const char* const given = getenv("SIMGPU_DEVICE_NAME");
  snprintf(name, static_cast<size_t>(length), "%s", given != nullptr ? given : kDeviceName);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!uuid) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  std::memcpy(uuid->bytes, device_uuid(device).data(), sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetLuid(char*, unsigned*, CUdevice) {
  SIMGPU_DRIVER_ENTER();
  return CUDA_ERROR_NOT_SUPPORTED;  // exists on Windows only
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *bytes = device_capacity();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* elements, CUarray_format, unsigned,
                                            CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!elements) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *elements = size_t{1} << 28;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!value) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  return attribute_value(value, attribute, device);
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!properties) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *properties = {
      kMaxBlockThreads,
      {kMaxBlockThreads, kMaxBlockThreads, kMaxBlockZ},
      {static_cast<int>(kMaxGridX), static_cast<int>(kMaxGridYZ), static_cast<int>(kMaxGridYZ)},
      kSharedPerBlock,
      65536,
      kWarpThreads,
      2147483647,
      65536,
      1980000,
      512};
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!major || !minor) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *major = kComputeMajor;
  *minor = kComputeMinor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!supported) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *supported = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!text || length <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  snprintf(text, static_cast<size_t>(length), "%s", bus_id(device).c_str());
  return CUDA_SUCCESS;
}

// Accepts domain:bus:device.function, domain:bus:device and bus:device.function, in either case.
CUresult cuDeviceGetByPCIBusId(CUdevice* out, const char* text) {
  SIMGPU_DRIVER_ENTER();
  if (!out || !text) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (CUdevice device = 0; device < device_count(); ++device) {
    const std::string full = bus_id(device);
    if (strcasecmp(text, full.c_str()) == 0 || strcasecmp(text, full.c_str() + 5) == 0 ||
        strcasecmp(text, full.substr(0, full.size() - 2).c_str()) == 0) {
      *out = device;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  SIMGPU_DRIVER_ENTER();
  if (!can) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(device) || !valid_device(peer)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *can = device != peer;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to) {
  SIMGPU_DRIVER_ENTER();
  if (!value) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!valid_device(from) || !valid_device(to) || from == to) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return CUDA_SUCCESS;
  }
}

namespace {

// Every operation on 32 and 64 bits, as between parts on a native link.
CUresult all_atomics(unsigned* capabilities, const CUatomicOperation* operations, unsigned count,
                     unsigned value) {
  if (!capabilities || !operations || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::fill_n(capabilities, count, value);
  return CUDA_SUCCESS;
}

constexpr unsigned kSignedUnsigned32And64 =
    CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED | CU_ATOMIC_CAPABILITY_SCALAR_32 |
    CU_ATOMIC_CAPABILITY_SCALAR_64;

}  // namespace

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned* capabilities,
                                          const CUatomicOperation* operations, unsigned count,
                                          CUdevice from, CUdevice to) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(from) || !valid_device(to)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  return all_atomics(capabilities, operations, count, kSignedUnsigned32And64);
}

CUresult cuDeviceGetHostAtomicCapabilities(unsigned* capabilities,
                                           const CUatomicOperation* operations, unsigned count,
                                           CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  return all_atomics(capabilities, operations, count, 0);  // over PCIe: none native
}
