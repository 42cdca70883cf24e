#include "interpose/tables/context_devices.h"

namespace traintrace {
namespace {

constexpr int kMaxContexts = 256;

struct Context {
  uint64_t handle;  // 0: free
  int32_t device;
};
Context g_contexts[kMaxContexts];

}  // namespace

uint8_t device_or_none(int device) noexcept {
  return device >= 0 && device < format::kNoDevice ? static_cast<uint8_t>(device)
                                                   : format::kNoDevice;
}

void remember_context(uint64_t context, int device) noexcept {
  for (Context& place : g_contexts) {
    uint64_t handle = 0;
    if (__atomic_load_n(&place.handle, __ATOMIC_RELAXED) == context ||
        __atomic_compare_exchange_n(&place.handle, &handle, context, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED) ||
        handle == context) {
      __atomic_store_n(&place.device, device, __ATOMIC_RELEASE);
      return;
    }
  }
}

uint8_t device_of_context(uint64_t context) noexcept {
  for (const Context& place : g_contexts) {
    const uint64_t handle = __atomic_load_n(&place.handle, __ATOMIC_ACQUIRE);
    if (handle == context || !handle) {
      return handle && context ? device_or_none(__atomic_load_n(&place.device, __ATOMIC_RELAXED))
                               : format::kNoDevice;
    }
  }
  return format::kNoDevice;
}

}  // namespace traintrace
