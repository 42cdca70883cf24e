// The structure that NCCL looks up in the library that NCCL_PROFILER_PLUGIN names.
#include <link.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "interpose/base/files.h"
#include "interpose/gpu/nccl_profiler.h"
#include "interpose/gpu/plugin.h"
#include "interpose/stacks/objects.h"

namespace traintrace {
namespace {

constexpr size_t kLongestName = 254;  // that NCCL takes

// The environment must not grow while other threads may read it, so this is done before main(),
// and only where it was asked for.
[[gnu::constructor]] void name_ourselves() {
  const char* const level = getenv("TRAINTRACE_GPU_PROGRESS");
  if (!level || !equal(level, "plugin") || getauxval(AT_SECURE)) {
    return;
  }
  const link_map* const map = map_of(reinterpret_cast<const void*>(&plugin_loaded));
  if (map && strnlen(map->l_name, kLongestName + 1) <= kLongestName) {
    setenv("NCCL_PROFILER_PLUGIN", map->l_name, 0);
  }
}

uint64_t number(void* handle) {
  return reinterpret_cast<uint64_t>(handle);
}

// An error: NCCL goes on without us.
ncclResult_t init(void** context, uint64_t, int* mask, const char*, int, int, int, void*) {
  if (g_gpu_progress != GpuProgress::kPlugin) {
    return ncclSystemError;
  }
  plugin_loaded();
  *context = const_cast<char*>("");
  *mask = kProfileCollApi | kProfileP2pApi | kProfileColl | kProfileP2p | kProfileKernelCh;
  return ncclSuccess;
}

uint64_t begin(const ProfilerEvent& event) {
  switch (event.type) {
    case kProfileCollApi:
      return event.coll_api.captured ? 0 : plugin_call_begins();
    case kProfileP2pApi:
      return event.p2p_api.captured ? 0 : plugin_call_begins();
    case kProfileColl:
      return plugin_task_begins(number(event.parent), event.coll.channels);
    case kProfileP2p:
      return plugin_task_begins(number(event.parent), event.p2p.channels);
    case kProfileKernelCh:
      return plugin_channel_begins(number(event.parent));
    default:
      return 0;
  }
}

ncclResult_t start_event(void*, void** handle, ProfilerEvent* event) {
  *handle = reinterpret_cast<void*>(begin(*event));
  return ncclSuccess;
}

ncclResult_t stop_event(void* handle) {
  plugin_event_ends(number(handle));
  return ncclSuccess;
}

ncclResult_t record_event_state(void*, int, void*) {
  return ncclSuccess;
}

ncclResult_t finalize(void*) {
  return ncclSuccess;
}

}  // namespace

extern "C" [[gnu::visibility(
    "default")]] const Profiler ncclProfiler_v5;  // NOLINT(readability-identifier-naming)
extern "C" const Profiler ncclProfiler_v5 = {"traintrace",       init,    start_event, stop_event,
                                             record_event_state, finalize};

}  // namespace traintrace
