// What we need of libcupti, which is neither linked nor needed for the build.  Of its records only
// the beginnings, which all versions since CUDA 9 have in common; tests/unit/cupti_layout.cc
// compares them with NVIDIA's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace::cupti {

inline constexpr int kSuccess = 0;
inline constexpr int kNotInitialized = 15;
inline constexpr int kMultipleSubscribers = 39;

enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kKernel = 3,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpyPeer = 22,  // CUPTI_ACTIVITY_KIND_MEMCPY2
  kSynchronization = 38,
};
enum Domain : uint32_t { kDriverApi = 1, kRuntimeApi = 2 };
inline constexpr uint32_t kApiEnter = 0;

struct Kernel {
  uint32_t kind;
  uint8_t caches[2];
  uint16_t registers;
  uint32_t partitioned[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
};

struct Memcpy {
  uint32_t kind;
  uint8_t copy_kind, source, destination, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
  uint32_t correlation;
};

struct MemcpyPeer {
  uint32_t kind;
  uint8_t copy_kind, source, destination, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
  uint32_t source_device, source_context, destination_device, destination_context;
  uint32_t correlation;
};

struct Memset {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
  uint32_t correlation;
};

struct Synchronization {
  uint32_t kind;
  uint32_t type;
  uint64_t start, end;
  uint32_t correlation, context, stream;
};

struct Overhead {
  uint32_t kind;
  uint32_t overhead_kind;
  uint32_t object[4];
  uint64_t start, end;
};

struct CallbackData {
  uint32_t site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;
  void* context;
  uint32_t context_uid;
  uint64_t* correlation_data;
  uint32_t correlation;
};

using Subscriber = void*;
using Callback = void(void* user, uint32_t domain, uint32_t id, const void* data);
using BufferRequested = void(uint8_t** buffer, size_t* bytes, size_t* most_records);
using BufferCompleted = void(void* context, uint32_t stream, uint8_t* buffer, size_t bytes,
                             size_t valid_bytes);

// Each returns a CUptiResult.
struct Functions {
  int (*cuptiSubscribe)(Subscriber*, Callback*, void*);
  int (*cuptiUnsubscribe)(Subscriber);
  int (*cuptiEnableCallback)(uint32_t enable, Subscriber, uint32_t domain, uint32_t id);
  int (*cuptiGetCallbackName)(uint32_t domain, uint32_t id, const char** name);
  int (*cuptiActivityRegisterCallbacks)(BufferRequested*, BufferCompleted*);
  int (*cuptiActivityEnable)(uint32_t kind);
  int (*cuptiActivityDisable)(uint32_t kind);
  int (*cuptiActivityFlushAll)(uint32_t flags);
  int (*cuptiActivityGetNextRecord)(uint8_t* buffer, size_t valid_bytes, void** record);
  int (*cuptiActivityGetNumDroppedRecords)(void* context, uint32_t stream, size_t* dropped);
  int (*cuptiGetTimestamp)(uint64_t* ns);
};

}  // namespace traintrace::cupti
