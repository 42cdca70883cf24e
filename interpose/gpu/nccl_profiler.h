// NCCL's profiler interface, version 5 (NCCL 2.28 and later), as far as we use it: no header that
// is installed with NCCL declares it.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace traintrace {

enum ProfilerEventType : uint64_t {
  kProfileColl = 1 << 1,      // a collective in a kernel
  kProfileP2p = 1 << 2,       // a send or receive in a kernel
  kProfileKernelCh = 1 << 6,  // its part on one channel, while the kernel is at it
  kProfileCollApi = 1 << 9,   // the call of a collective
  kProfileP2pApi = 1 << 10,   // the call of a send or receive
};

struct ProfilerEvent {
  uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* function;
      size_t count;
      const char* data_type;
      int root;
      void* stream;
      bool captured;
    } coll_api;
    struct {
      const char* function;
      size_t count;
      const char* data_type;
      void* stream;
      bool captured;
    } p2p_api;
    struct {
      uint64_t sequence;
      const char* function;
      const void* send;
      void* receive;
      size_t count;
      int root;
      const char* data_type;
      uint8_t channels;
      uint8_t warps;
      const char* algorithm;
      const char* protocol;
      void* group;
    } coll;
    struct {
      const char* function;
      void* buffer;
      const char* data_type;
      size_t count;
      int peer;
      uint8_t channels;
      void* group;
    } p2p;
  };
};

// The `v5` structure that NCCL looks up by its name.
struct Profiler {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t communicator, int* mask, const char* name,
                       int nodes, int ranks, int rank, void* logger);
  ncclResult_t (*start_event)(void* context, void** handle, ProfilerEvent* event);
  ncclResult_t (*stop_event)(void* handle);
  ncclResult_t (*record_event_state)(void* handle, int state, void* arguments);
  ncclResult_t (*finalize)(void* context);
};

}  // namespace traintrace
