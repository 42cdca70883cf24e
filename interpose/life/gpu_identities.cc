#include "interpose/life/gpu_identities.h"

#include <cerrno>

// cuda.h renames functions by macros.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(bugprone-reserved-identifier)
#include <cuda.h>

#include "interpose/base/files.h"
#include "interpose/calls/open_call.h"
#include "interpose/calls/resolve.h"
#include "interpose/life/facts.h"
#include "interpose/life/told.h"
#include "interpose/record/clock.h"
#include "interpose/tables/failures.h"

namespace traintrace {

constinit bool g_gpu_identities_wanted = false;

namespace {

constexpr int kMostDevices = 64;
constexpr uint32_t kMostAttempts = 64;  // of a driver that is never initialized

// The last five may be missing.
struct Driver {
  decltype(&cuDeviceGetCount) get_count;
  decltype(&cuDeviceGet) get;
  decltype(&cuDeviceGetUuid) get_uuid;
  decltype(&cuDeviceGetPCIBusId) get_bus;
  CUresult (*get_memory)(size_t*, CUdevice);
  decltype(&cuDeviceGetAttribute) get_attribute;
  CUresult (*get_free)(size_t*, size_t*);  // of the context's device, and all of its memory
};
constinit Driver g_driver = {};
constinit uint32_t g_found = 0;
constinit uint32_t g_busy = 0;
constinit uint32_t g_attempts = 0;

template <class Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(real_lookup(library, name));
  return into != nullptr;
}

struct Identity {
  CUuuid uuid;
  char bus[32];
  size_t memory;  // bytes; 0: not told
  int mps;        // not 0: several processes share it through MPS
  bool has_uuid;
  bool has_bus;
};

Identity ask(ThreadState& thread, int ordinal) {
  const OwnCall own(thread);
  const Driver& driver = g_driver;
  Identity identity = {};
  CUdevice device = 0;
  if (driver.get(&device, ordinal) == CUDA_SUCCESS) {
    identity.has_uuid =
        driver.get_uuid != nullptr && driver.get_uuid(&identity.uuid, device) == CUDA_SUCCESS;
    identity.has_bus = driver.get_bus != nullptr &&
                       driver.get_bus(identity.bus, sizeof identity.bus, device) == CUDA_SUCCESS;
    if (driver.get_memory == nullptr ||
        driver.get_memory(&identity.memory, device) != CUDA_SUCCESS) {
      identity.memory = 0;
    }
    // Older drivers do not know it.
    if (driver.get_attribute == nullptr ||
        driver.get_attribute(&identity.mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device) !=
            CUDA_SUCCESS) {
      identity.mps = 0;
    }
  }
  return identity;
}

// As NVML and nvidia-smi write it.
void write_uuid(const CUuuid& uuid, Text& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  text << "GPU-";
  for (int i = 0; i < 16; ++i) {
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    const char pair[] = {kDigits[byte >> 4], kDigits[byte & 15], 0};
    text << (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") << pair;
  }
}

void define(ThreadState& thread, int ordinal) {
  Identity identity = ask(thread, ordinal);
  if (identity.has_uuid) {
    WordText key;
    WordText value;
    key << "gpu-" << int64_t{ordinal} << "-uuid";
    write_uuid(identity.uuid, value);
    write_fact(thread, key.c_str(), value.c_str());
  }
  if (identity.has_bus) {
    WordText key;
    key << "gpu-" << int64_t{ordinal} << "-pci";
    for (char& c : identity.bus) {
      c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    identity.bus[sizeof identity.bus - 1] = '\0';
    write_fact(thread, key.c_str(), identity.bus);
  }
  if (identity.memory != 0) {
    WordText key;
    WordText value;
    key << "gpu-" << int64_t{ordinal} << "-memory";
    value << static_cast<int64_t>(identity.memory);
    write_fact(thread, key.c_str(), value.c_str());
  }
  if (identity.mps != 0) {
    WordText key;
    key << "gpu-" << int64_t{ordinal} << "-mps";
    write_fact(thread, key.c_str(), "on");
    tell_shared_gpu(ordinal);
  }
}

// False: it may answer later.
bool try_to_define(ThreadState& thread) {
  int count = 0;
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;
  {
    const OwnCall own(thread);
    result = g_driver.get_count(&count);
  }
  if (result == CUDA_ERROR_NOT_INITIALIZED) {
    return false;
  }
  for (int ordinal = 0; result == CUDA_SUCCESS && ordinal < count && ordinal < kMostDevices;
       ++ordinal) {
    define(thread, ordinal);
  }
  return true;
}

}  // namespace

void gpu_identities_sought(format::Library library, void* handle) noexcept {
  static constinit uint32_t sought = 0;
  if (library != format::Library::Driver || !exchange_if(sought, 0U, 1U) ||
      !find(handle, "cuDeviceGetCount", g_driver.get_count) ||
      !find(handle, "cuDeviceGet", g_driver.get)) {
    return;
  }
  // The first one says of a part of a GPU (MIG) which GPU it is of, the second one which part.
  if (!find(handle, "cuDeviceGetUuid", g_driver.get_uuid)) {
    find(handle, "cuDeviceGetUuid_v2", g_driver.get_uuid);
  }
  find(handle, "cuDeviceGetPCIBusId", g_driver.get_bus);
  find(handle, "cuDeviceTotalMem_v2", g_driver.get_memory);
  find(handle, "cuDeviceGetAttribute", g_driver.get_attribute);
  find(handle, "cuMemGetInfo_v2", g_driver.get_free);
  publish(g_found, 1U);
}

void define_gpu_identities_slow(ThreadState& thread) noexcept {
  if (load(g_found) == 0 || !exchange_if(g_busy, 0U, 1U)) {
    return;
  }
  const int saved_errno = errno;
  if (!load(g_gpu_identities_wanted) ||  // another thread was first
      try_to_define(thread) || fetch_add(g_attempts, 1U) + 1 >= kMostAttempts) {
    publish(g_gpu_identities_wanted, false);
  }
  publish(g_busy, 0U);
  errno = saved_errno;
}

void ask_memory_left(ThreadState& thread, uint64_t ticks) noexcept {
  static constinit uint64_t asked_ns = 0;
  constexpr uint64_t kAskEveryNs = 100'000'000;
  const uint64_t now_ns = nanoseconds(CLOCK_MONOTONIC);
  const uint64_t last_ns = load(asked_ns);
  if (load(g_found) == 0 || g_driver.get_free == nullptr ||
      (last_ns != 0 && now_ns - last_ns < kAskEveryNs) || !exchange_if(asked_ns, last_ns, now_ns)) {
    return;
  }
  const int saved_errno = errno;
  size_t free = 0;
  size_t total = 0;
  CUresult result = CUDA_ERROR_UNKNOWN;
  {
    const OwnCall own(thread);
    result = g_driver.get_free(&free, &total);
  }
  if (result == CUDA_SUCCESS) {
    memory_asked(thread, free, total, ticks);
  }
  errno = saved_errno;
}

void gpu_identities_start() noexcept {
  publish(g_busy, 0U);
  publish(g_attempts, 0U);
  publish(g_gpu_identities_wanted, true);
}

}  // namespace traintrace
