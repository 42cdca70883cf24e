// The one subscriber, and what it is told.
#include <atomic>
#include <map>
#include <mutex>
#include <string_view>

#include "common/entry.h"
#include "cupti/activities.h"

struct CUpti_Subscriber_st {
  std::atomic<CUpti_CallbackFunc> callback{nullptr};  // null: nobody subscribes
  std::atomic<void*> user{nullptr};
};

namespace simgpu {
namespace {

struct CallbackName {
  const char* name;
  uint32_t id;
};
constexpr CallbackName kDriverCallbacks[] = {
#include "driver_callbacks.inc"
};
constexpr CallbackName kRuntimeCallbacks[] = {
#include "runtime_callbacks.inc"
};
constexpr uint32_t kMostIds = 4096;

// Never destroyed: calls may come while the process ends.
CUpti_Subscriber_st g_subscriber;
std::atomic<bool> g_enabled[kMostIds] = {};  // of the driver's

uint32_t driver_id(std::string_view name) {
  static const auto& ids = *[] {
    auto* all = new std::map<std::string_view, uint32_t>;
    for (const CallbackName& callback : kDriverCallbacks) {
      (*all)[callback.name] = callback.id;
    }
    return all;
  }();
  const auto found = ids.find(name);
  return found == ids.end() ? 0 : found->second;
}

template <size_t kCount>
const char* name_of(const CallbackName (&callbacks)[kCount], uint32_t id) {
  for (const CallbackName& callback : callbacks) {
    if (callback.id == id) {
      return callback.name;
    }
  }
  return nullptr;
}

const char* name_of(CUpti_CallbackDomain domain, uint32_t id) {
  return domain == CUPTI_CB_DOMAIN_DRIVER_API    ? name_of(kDriverCallbacks, id)
         : domain == CUPTI_CB_DOMAIN_RUNTIME_API ? name_of(kRuntimeCallbacks, id)
                                                 : nullptr;
}

void enable(CUpti_CallbackDomain domain, uint32_t id, bool on) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && id < kMostIds) {
    g_enabled[id].store(on);
  }
}

}  // namespace

// SIMGPU_DIFFERS(cuptiEnableCallback, cuptiEnableDomain): only calls of the driver are told of, at
// their entry, without their parameters.
void call_subscriber(const char* function, uint32_t correlation) {
  const uint32_t id = driver_id(function);
  const CUpti_CallbackFunc callback = g_subscriber.callback.load();
  if (id == 0 || callback == nullptr || !g_enabled[id].load()) {
    return;
  }
  CUpti_CallbackData data = {};
  data.callbackSite = CUPTI_API_ENTER;
  data.functionName = function;
  data.correlationId = correlation;
  callback(g_subscriber.user.load(), CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

}  // namespace simgpu

using namespace simgpu;

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                           void* user) {
  SIMGPU_ENTER(CUptiResult);
  if (subscriber == nullptr || callback == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  if (!trace_driver()) {
    return CUPTI_ERROR_NOT_INITIALIZED;
  }
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (g_subscriber.callback.load() != nullptr) {
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  g_subscriber.user.store(user);
  g_subscriber.callback.store(callback);
  *subscriber = &g_subscriber;
  return CUPTI_SUCCESS;
}

// SIMGPU_DIFFERS(cuptiSubscribe_v2): its parameters are not looked at.
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                              void* user, CUpti_SubscriberParams*) {
  return cuptiSubscribe(subscriber, callback, user);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  SIMGPU_ENTER(CUptiResult);
  if (subscriber != &g_subscriber || g_subscriber.callback.load() == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  for (std::atomic<bool>& enabled : g_enabled) {
    enabled.store(false);
  }
  g_subscriber.callback.store(nullptr);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  SIMGPU_ENTER(CUptiResult);
  if (subscriber != &g_subscriber || name_of(domain, id) == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  enable(domain, id, on != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain) {
  SIMGPU_ENTER(CUptiResult);
  if (subscriber != &g_subscriber) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  for (const CallbackName& callback : kDriverCallbacks) {
    enable(domain, callback.id, on != 0);
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  SIMGPU_ENTER(CUptiResult);
  const char* const found = name_of(domain, id);
  if (name == nullptr || found == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  *name = found;
  return CUPTI_SUCCESS;
}

}  // extern "C"
