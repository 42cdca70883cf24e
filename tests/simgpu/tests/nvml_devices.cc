// libnvidia-ml of simgpu: the same devices as the driver's, and the faults that SIMGPU_NVML names.
#include <cuda.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "analyzer/telemetry/nvml_api.h"

extern "C" {
nvmlInit_v2_t nvmlInit_v2;
nvmlDeviceGetCount_v2_t nvmlDeviceGetCount_v2;
nvmlDeviceGetHandleByIndex_v2_t nvmlDeviceGetHandleByIndex_v2;
nvmlDeviceGetText_t nvmlDeviceGetUUID;
nvmlDeviceGetPciInfo_v3_t nvmlDeviceGetPciInfo_v3;
nvmlDeviceGetViolationStatus_t nvmlDeviceGetViolationStatus;
nvmlDeviceGetReasons_t nvmlDeviceGetCurrentClocksEventReasons;
nvmlDeviceGetTotalEccErrors_t nvmlDeviceGetTotalEccErrors;
nvmlDeviceGetMemoryInfo_t nvmlDeviceGetMemoryInfo;
nvmlDeviceGetNumber_t nvmlDeviceGetCurrPcieLinkWidth;
nvmlEventSetCreate_t nvmlEventSetCreate;
nvmlEventSetWait_v2_t nvmlEventSetWait_v2;
}

namespace {

// Read once by the library, so before its first call.
const int g_set = setenv("SIMGPU_NVML", "thermal@1,ecc@2=3,xid@3=79,foreign@0=1024,width@2=8", 1) +
                  setenv("SIMGPU_DEVICES", "4", 1);

nvmlDevice_t device(unsigned index) {
  nvmlDevice_t handle = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &handle), NVML_SUCCESS);
  return handle;
}

TEST(Nvml, DevicesAreThoseOfTheDriver) {
  ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  unsigned count = 0;
  ASSERT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 4U);
  for (unsigned i = 0; i < count; ++i) {
    CUuuid uuid;
    ASSERT_EQ(cuDeviceGetUuid_v2(&uuid, static_cast<int>(i)), CUDA_SUCCESS);
    std::string expected = "GPU-";
    for (size_t at = 0; at < sizeof uuid.bytes; ++at) {
      char hex[3];
      snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[at]));
      expected += (at == 4 || at == 6 || at == 8 || at == 10 ? "-" : "") + std::string(hex);
    }
    char text[96];
    ASSERT_EQ(nvmlDeviceGetUUID(device(i), text, sizeof text), NVML_SUCCESS);
    EXPECT_EQ(text, expected);
    char bus[32];
    ASSERT_EQ(cuDeviceGetPCIBusId(bus, sizeof bus, static_cast<int>(i)), CUDA_SUCCESS);
    nvmlPciInfo_t pci = {};
    ASSERT_EQ(nvmlDeviceGetPciInfo_v3(device(i), &pci), NVML_SUCCESS);
    EXPECT_STREQ(pci.busIdLegacy, bus);
    EXPECT_EQ(std::string(pci.busId), "0000" + std::string(bus));
  }
}

TEST(Nvml, FaultsAreThoseOfTheirDevices) {
  nvmlViolationTime_t held = {};
  ASSERT_EQ(nvmlDeviceGetViolationStatus(device(1), NVML_PERF_POLICY_THERMAL, &held), NVML_SUCCESS);
  EXPECT_GT(held.violationTime, 0U);
  ASSERT_EQ(nvmlDeviceGetViolationStatus(device(0), NVML_PERF_POLICY_THERMAL, &held), NVML_SUCCESS);
  EXPECT_EQ(held.violationTime, 0U);
  unsigned long long reasons = 0;
  ASSERT_EQ(nvmlDeviceGetCurrentClocksEventReasons(device(1), &reasons), NVML_SUCCESS);
  EXPECT_NE(reasons & nvmlClocksThrottleReasonHwThermalSlowdown, 0U);
  ASSERT_EQ(nvmlDeviceGetCurrentClocksEventReasons(device(3), &reasons), NVML_SUCCESS);
  EXPECT_EQ(reasons, nvmlClocksEventReasonGpuIdle);
  for (unsigned i = 0; i < 4; ++i) {
    unsigned long long errors = 0;
    ASSERT_EQ(nvmlDeviceGetTotalEccErrors(device(i), NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                          NVML_VOLATILE_ECC, &errors),
              NVML_SUCCESS);
    EXPECT_EQ(errors, i == 2 ? 3U : 0U);
    unsigned lanes = 0;
    ASSERT_EQ(nvmlDeviceGetCurrPcieLinkWidth(device(i), &lanes), NVML_SUCCESS);
    EXPECT_EQ(lanes, i == 2 ? 8U : 16U);
  }
}

TEST(Nvml, MemoryIsThatOfTheDriverAndOfOthers) {
  nvmlMemory_t other = {};
  nvmlMemory_t own = {};
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(device(0), &other), NVML_SUCCESS);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(device(1), &own), NVML_SUCCESS);
  EXPECT_EQ(other.used - own.used, 1024ULL << 20);
  CUcontext context = nullptr;
  CUdeviceptr pointer = 0;
  constexpr size_t kBytes = 64 << 20;
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&pointer, kBytes), CUDA_SUCCESS);
  nvmlMemory_t now = {};
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(device(1), &now), NVML_SUCCESS);
  EXPECT_EQ(now.used - own.used, kBytes);
}

TEST(Nvml, AnXidIsToldOnce) {
  nvmlEventSet_t set = nullptr;
  ASSERT_EQ(nvmlEventSetCreate(&set), NVML_SUCCESS);
  nvmlEventData_t event = {};
  ASSERT_EQ(nvmlEventSetWait_v2(set, &event, 1000), NVML_SUCCESS);
  EXPECT_EQ(event.device, device(3));
  EXPECT_EQ(event.eventType, nvmlEventTypeXidCriticalError);
  EXPECT_EQ(event.eventData, 79U);
  EXPECT_EQ(nvmlEventSetWait_v2(set, &event, 50), NVML_ERROR_TIMEOUT);
}

}  // namespace
