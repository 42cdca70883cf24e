// Our declarations of CUPTI against NVIDIA's headers, where these are at hand.
#include <gtest/gtest.h>

#include "interpose/gpu/cupti_api.h"

#if __has_include(<cupti.h>)
#include <cupti.h>

namespace cupti = traintrace::cupti;

#define SAME(ours, our_field, theirs, their_field)                           \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field)); \
  static_assert(sizeof(ours::our_field) == sizeof(theirs::their_field))

#define SAME_KERNEL(theirs)                                                \
  SAME(cupti::Kernel, kind, theirs, kind);                                 \
  SAME(cupti::Kernel, start, theirs, start);                               \
  SAME(cupti::Kernel, end, theirs, end);                                   \
  SAME(cupti::Kernel, device, theirs, deviceId);                           \
  SAME(cupti::Kernel, stream, theirs, streamId);                           \
  SAME(cupti::Kernel, correlation, theirs, correlationId);                 \
  SAME(cupti::Kernel, name, theirs, name);                                 \
  static_assert(offsetof(cupti::Kernel, grid) == offsetof(theirs, gridX)); \
  static_assert(offsetof(cupti::Kernel, block) == offsetof(theirs, blockX))
SAME_KERNEL(CUpti_ActivityKernel4);
SAME_KERNEL(CUpti_ActivityKernel9);
SAME_KERNEL(CUpti_ActivityKernel10);

#define SAME_COPY(ours, theirs)             \
  SAME(ours, kind, theirs, kind);           \
  SAME(ours, copy_kind, theirs, copyKind);  \
  SAME(ours, source, theirs, srcKind);      \
  SAME(ours, destination, theirs, dstKind); \
  SAME(ours, bytes, theirs, bytes);         \
  SAME(ours, start, theirs, start);         \
  SAME(ours, end, theirs, end);             \
  SAME(ours, device, theirs, deviceId);     \
  SAME(ours, stream, theirs, streamId);     \
  SAME(ours, correlation, theirs, correlationId)
SAME_COPY(cupti::Memcpy, CUpti_ActivityMemcpy3);
SAME_COPY(cupti::Memcpy, CUpti_ActivityMemcpy6);
SAME_COPY(cupti::MemcpyPeer, CUpti_ActivityMemcpyPtoP4);

SAME(cupti::Memset, bytes, CUpti_ActivityMemset4, bytes);
SAME(cupti::Memset, start, CUpti_ActivityMemset4, start);
SAME(cupti::Memset, end, CUpti_ActivityMemset4, end);
SAME(cupti::Memset, device, CUpti_ActivityMemset4, deviceId);
SAME(cupti::Memset, stream, CUpti_ActivityMemset4, streamId);
SAME(cupti::Memset, correlation, CUpti_ActivityMemset4, correlationId);

SAME(cupti::Synchronization, type, CUpti_ActivitySynchronization2, type);
SAME(cupti::Synchronization, start, CUpti_ActivitySynchronization2, start);
SAME(cupti::Synchronization, end, CUpti_ActivitySynchronization2, end);
SAME(cupti::Synchronization, correlation, CUpti_ActivitySynchronization2, correlationId);
SAME(cupti::Synchronization, stream, CUpti_ActivitySynchronization2, streamId);

SAME(cupti::Overhead, overhead_kind, CUpti_ActivityOverhead3, overheadKind);
SAME(cupti::Overhead, start, CUpti_ActivityOverhead3, start);
SAME(cupti::Overhead, end, CUpti_ActivityOverhead3, end);

SAME(cupti::CallbackData, site, CUpti_CallbackData, callbackSite);
SAME(cupti::CallbackData, function, CUpti_CallbackData, functionName);
SAME(cupti::CallbackData, correlation, CUpti_CallbackData, correlationId);

static_assert(uint32_t{cupti::kMemcpy} == static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMCPY));
static_assert(uint32_t{cupti::kMemset} == static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMSET));
static_assert(uint32_t{cupti::kKernel} == static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_KERNEL));
static_assert(uint32_t{cupti::kConcurrentKernel} ==
              static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
static_assert(uint32_t{cupti::kOverhead} == static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_OVERHEAD));
static_assert(uint32_t{cupti::kMemcpyPeer} == static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_MEMCPY2));
static_assert(uint32_t{cupti::kSynchronization} ==
              static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
static_assert(uint32_t{cupti::kDriverApi} == static_cast<uint32_t>(CUPTI_CB_DOMAIN_DRIVER_API));
static_assert(uint32_t{cupti::kRuntimeApi} == static_cast<uint32_t>(CUPTI_CB_DOMAIN_RUNTIME_API));
static_assert(uint32_t{cupti::kApiEnter} == static_cast<uint32_t>(CUPTI_API_ENTER));
static_assert(uint32_t(cupti::kNotInitialized) ==
              static_cast<uint32_t>(CUPTI_ERROR_NOT_INITIALIZED));
static_assert(uint32_t(cupti::kMultipleSubscribers) ==
              static_cast<uint32_t>(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED));

TEST(CuptiLayout, IsThatOfTheHeaders) {
  // It has compiled.
}
#else
TEST(CuptiLayout, IsThatOfTheHeaders) {
  GTEST_SKIP() << "there is no cupti.h";
}
#endif
