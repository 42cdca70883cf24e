#include "nccl/profiler.h"

#include <dlfcn.h>
#include <nccl.h>
#include <strings.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "nccl/debug.h"
#include "nccl/enqueue.h"

namespace simgpu::nccl {
namespace {

enum Type : uint64_t {
  kColl = 1 << 1,
  kP2p = 1 << 2,
  kKernelCh = 1 << 6,
  kCollApi = 1 << 9,
  kP2pApi = 1 << 10,
};
constexpr int kKernelChStop = 22;

// ncclProfilerEventDescr_v5_t.
struct Event {
  uint64_t type = 0;
  void* parent = nullptr;
  int rank = 0;
  union Details {
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
      uint8_t channels, warps;
      const char *algorithm, *protocol;
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
    struct {
      uint8_t channel;
      uint64_t timer;
    } kernel;
  } details{};
};

// ncclProfiler_v5_t.
struct Plugin {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t hash, int* mask, const char* name, int nodes,
                       int ranks, int rank, void* logger);
  ncclResult_t (*start)(void* context, void** handle, Event* event);
  ncclResult_t (*stop)(void* handle);
  ncclResult_t (*record)(void* handle, int state, void* arguments);
  ncclResult_t (*finalize)(void* context);
};

// In the order of Call::Kind; Function begins in the same way.
constexpr const char* kFunctions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                      "AllReduce", "Send",   "Recv",      "AlltoAll",
                                      "Gather",    "Scatter"};
constexpr const char* kTypes[] = {"ncclInt8",     "ncclUint8",      "ncclInt32",
                                  "ncclUint32",   "ncclInt64",      "ncclUint64",
                                  "ncclFloat16",  "ncclFloat32",    "ncclFloat64",
                                  "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

void* open_plugin(const char* name) {
  if (!name || !*name) {
    return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
  }
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const std::string with_prefix = "libnccl-profiler-" + std::string(name) + ".so";
  return library ? library : dlopen(with_prefix.c_str(), RTLD_NOW | RTLD_LOCAL);
}

const Plugin* load_plugin() {
  const char* const name = getenv("NCCL_PROFILER_PLUGIN");
  void* const library = name && strcasecmp(name, "none") == 0 ? nullptr : open_plugin(name);
  const auto* plugin =
      library ? static_cast<const Plugin*>(dlsym(library, "ncclProfiler_v5")) : nullptr;
  if (plugin) {
    info("Successfully loaded external profiler plugin %s", plugin->name);
  }
  return plugin;
}

struct Loaded {
  const Plugin* plugin = load_plugin();
  std::atomic<int> mask{0};
};
Loaded& loaded() {
  static Loaded& value = *new Loaded;
  return value;
}

void* start(Communicator& comm, Event& event) {
  void* handle = nullptr;
  if (!loaded().plugin || !comm.profiler || (loaded().mask.load() & event.type) == 0) {
    return nullptr;
  }
  event.rank = comm.rank;
  loaded().plugin->start(comm.profiler, &handle, &event);
  return handle;
}

}  // namespace

void profiler_init(Communicator& comm) {
  const Plugin* const plugin = loaded().plugin;
  if (!plugin) {
    return;
  }
  int mask = 0;
  const ncclResult_t result =
      plugin->init(&comm.profiler, comm.hash, &mask, comm.config.name.c_str(), 1, comm.rank_count,
                   comm.rank, nullptr);
  if (result != ncclSuccess) {
    comm.profiler = nullptr;
    return;
  }
  loaded().mask.store(mask);
}

void profiler_finalize(Communicator& comm) {
  if (comm.profiler && loaded().plugin) {
    loaded().plugin->finalize(comm.profiler);
    comm.profiler = nullptr;
  }
}

void* profiler_call_begins(const Call& call, bool transfer, bool captured) {
  Event event;
  const char* const function = kFunctions[static_cast<int>(call.kind)];
  const char* const type = kTypes[call.type];
  event.type = transfer ? kP2pApi : kCollApi;
  if (transfer) {
    event.details.p2p_api = {function, call.count, type, call.stream, captured};
  } else {
    event.details.coll_api = {function, call.count, type, call.root, call.stream, captured};
  }
  return start(*call.comm, event);
}

void* profiler_task_begins(Communicator& comm, const Operation& operation) {
  Event event;
  const char* const function = kFunctions[static_cast<int>(operation.function)];
  const char* const type = kTypes[operation.type];
  event.parent = operation.call_event;
  if (is_transfer(operation.function)) {
    event.type = kP2p;
    event.details.p2p = {function, operation.receive, type, operation.count, operation.root, 1,
                         nullptr};
  } else {
    event.type = kColl;
    event.details.coll = {0,
                          function,
                          operation.send,
                          operation.receive,
                          operation.count,
                          operation.root,
                          type,
                          1,
                          16,
                          "RING",
                          "LL",
                          nullptr};
  }
  return start(comm, event);
}

void* profiler_channel_begins(Communicator& comm, const Operation& operation) {
  Event event;
  event.type = kKernelCh;
  event.parent = operation.task_event;
  return operation.task_event ? start(comm, event) : nullptr;
}

void profiler_channel_ends(void* event) {
  if (event) {
    uint64_t timer = 0;
    loaded().plugin->record(event, kKernelChStop, &timer);
    loaded().plugin->stop(event);
  }
}

void profiler_event_ends(void* event) {
  if (event) {
    loaded().plugin->stop(event);
  }
}

}  // namespace simgpu::nccl
