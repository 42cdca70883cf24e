#include "interpose/gpu/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/base/files.h"
#include "interpose/life/told.h"
#include "interpose/record/definitions.h"

namespace traintrace {
namespace {

using format::Operation;
using format::OperationProgress;

// A handle: sort << 60 | place among all operations << 32 | lap (index_low).
enum Sort : uint64_t { kCall = 1, kTask = 2, kChannel = 3 };
constexpr int kSortShift = 60;
constexpr int kPlaceShift = 32;
constexpr uint64_t kPlaceMask = (uint64_t{1} << 20) - 1;

// Of each operation in one word: lap << 32 | channels << 20 | begun << 10 | ended.
constexpr uint64_t kOneEnded = 1;
constexpr uint64_t kOneBegun = uint64_t{1} << 10;
constexpr uint64_t kOneChannel = uint64_t{1} << 20;
constexpr uint64_t kCountMask = 1023;

struct Plugin {
  uint64_t* counts;
  uint8_t*
      reports;  // by communicator: channels of it were reported, so that silence says something
  bool settled;
};
Plugin g_plugin;
bool g_loaded;  // by NCCL; stays over forks, as NCCL keeps its libraries

thread_local const Operation* t_operation = nullptr;

uint64_t sort_of(uint64_t handle) {
  return handle >> kSortShift;
}
uint64_t place_of(uint64_t handle) {
  return handle >> kPlaceShift & kPlaceMask;
}
uint64_t with_sort(uint64_t handle, Sort sort) {
  return (handle & ~(uint64_t{15} << kSortShift)) | uint64_t{sort} << kSortShift;
}

// NCCL may call when nothing is recorded any more, as in a forked child.
bool is_followed(uint64_t handle) {
  return handle != 0 && g_plugin.counts != nullptr && g_tables.progress != nullptr &&
         place_of(handle) < g_tables.communicator_count * uint64_t{format::kRecentOperations};
}

// Of channels that have all ended, and are fewer than they should be, it cannot be told what is
// left; while one is at work the operation is certainly unfinished.
uint32_t flags_of(uint64_t counts) {
  const uint64_t channels = counts >> 20 & 4095;
  const uint64_t begun = counts >> 10 & kCountMask;
  const uint64_t ended = counts & kCountMask;
  if (begun == 0) {
    return format::kByPlugin;
  }
  const bool finished = ended == begun && ended >= channels;
  const bool unclear = ended == begun && !finished;
  return format::kByPlugin | format::kSeenReached | (finished ? format::kSeenFinished : 0U) |
         (unclear ? format::kShared : 0U);
}

void set_flags(OperationProgress& progress, uint32_t flags) {
  for (uint32_t old = load(progress.flags); (old & format::kFrozen) == 0;
       old = load(progress.flags)) {
    if (exchange_if(progress.flags, old, flags)) {
      return;
    }
  }
}

// Several threads of NCCL's may report on one operation: whoever comes last stores the last word.
void show(uint64_t place) {
  OperationProgress& progress = g_tables.progress[place];
  uint64_t counts = 0;
  do {
    counts = load(g_plugin.counts[place]);
    const bool silent = (counts >> 10 & kCountMask) == 0 &&
                        load(g_plugin.reports[place / format::kRecentOperations]) == 0;
    if (!silent) {
      set_flags(progress, flags_of(counts));
      publish(progress.launch, 1U);
    }
  } while (load(g_plugin.counts[place]) != counts);
}

// An exchange among a thousand ranks has more tasks than fit: nothing is said about it.
bool is_full(uint64_t counts, uint64_t what) {
  constexpr uint64_t kMostChannels = 4095;
  return (counts & kCountMask) + (what & kCountMask) > kCountMask ||
         (counts >> 10 & kCountMask) + (what >> 10 & kCountMask) > kCountMask ||
         (counts >> 20 & kMostChannels) + (what >> 20 & kMostChannels) > kMostChannels;
}

void add(uint64_t handle, uint64_t what) {
  uint64_t& counts = g_plugin.counts[place_of(handle)];
  for (uint64_t old = load(counts); old >> 32 == (handle & 0xffffffff); old = load(counts)) {
    if (is_full(old, what)) {
      publish(g_tables.progress[place_of(handle)].launch, 0U);
      publish(counts, ~old & ~uint64_t{0xffffffff});  // no lap that follows soon
      return;
    }
    if (exchange_if(counts, old, old + what)) {
      show(place_of(handle));
      return;
    }
  }
}

constexpr const char* kPlugin = "plugin";
constexpr const char* kObserve = "observe: ";

// Begins with kObserve.
const char* why_not() {
  const char* const name = getenv("NCCL_PROFILER_PLUGIN");
  if (!name || !*name) {
    return "observe: NCCL_PROFILER_PLUGIN could not be set";
  }
  return strstr(name, "libtraintrace") ? "observe: NCCL did not load the plugin, which needs 2.28"
                                       : "observe: NCCL_PROFILER_PLUGIN names another plugin";
}

void settle(ThreadState& thread) {
  if (exchange_if(g_plugin.settled, false, true)) {
    const char* const value = load(g_loaded) ? kPlugin : why_not();
    define_fact(thread, "gpu-progress", value, strlen(value));
    if (value != kPlugin) {
      tell_refused(format::Setting::GpuProgress, "progress is only observed",
                   value + strlen(kObserve));
    }
  }
}

}  // namespace

void plugin_operation_entered(ThreadState& thread, Operation& operation) noexcept {
  if (g_plugin.counts == nullptr) {
    return;
  }
  if (!load(g_plugin.settled)) {
    settle(thread);
  }
  constexpr unsigned kNot = format::kCaptured | format::kEmpty;
  t_operation = (operation.flags & kNot) == 0 ? &operation : nullptr;
}

void plugin_operation_left(ThreadState&) noexcept {
  t_operation = nullptr;
}

void plugin_loaded() noexcept {
  publish(g_loaded, true);
}

uint64_t plugin_call_begins() noexcept {
  const Operation* const operation = t_operation;
  if (operation == nullptr || g_plugin.counts == nullptr || g_tables.progress == nullptr) {
    return 0;
  }
  const auto place = static_cast<uint64_t>(operation - g_tables.operations);
  const uint64_t lap = operation->index_low;
  if (load(g_plugin.counts[place]) >> 32 != lap || load(g_tables.progress[place].launch) == 0) {
    OperationProgress& progress = g_tables.progress[place];
    publish(progress.launch, 0U);
    store_fence();
    publish(g_plugin.counts[place], lap << 32);
    progress.stream = operation->stream;
    progress.index_low = operation->index_low;
    publish(progress.flags, uint32_t{format::kByPlugin});
  }
  return with_sort(place << kPlaceShift | lap, kCall);
}

uint64_t plugin_task_begins(uint64_t call, uint32_t channels) noexcept {
  if (sort_of(call) != kCall || !is_followed(call)) {
    return 0;
  }
  add(call, channels * kOneChannel);
  return with_sort(call, kTask);
}

uint64_t plugin_channel_begins(uint64_t task) noexcept {
  if (sort_of(task) != kTask || !is_followed(task)) {
    return 0;
  }
  publish(g_plugin.reports[place_of(task) / format::kRecentOperations], uint8_t{1});
  add(task, kOneBegun);
  return with_sort(task, kChannel);
}

void plugin_event_ends(uint64_t handle) noexcept {
  if (sort_of(handle) == kChannel && is_followed(handle)) {
    add(handle, kOneEnded);
  }
}

void plugin_freeze(Operation& operation) noexcept {
  if (g_plugin.counts == nullptr) {
    return;
  }
  OperationProgress& progress = g_tables.progress[&operation - g_tables.operations];
  if (load(progress.launch) == 0 || progress.index_low != operation.index_low) {
    return;
  }
  const uint32_t before = fetch_or(progress.flags, uint32_t{format::kFrozen});
  if ((before & format::kSeenFinished) != 0) {
    fetch_or(operation.flags, static_cast<uint8_t>(format::kFinished));
  }
}

void plugin_forget(uint32_t index) noexcept {
  if (g_plugin.counts == nullptr) {
    return;
  }
  publish(g_plugin.reports[index], uint8_t{0});
  for (uint32_t i = 0; i < format::kRecentOperations; ++i) {
    publish(g_plugin.counts[index * uint64_t{format::kRecentOperations} + i], ~uint64_t{0} << 32);
  }
}

void plugin_start() noexcept {
  g_plugin = {};
  if (g_tables.progress != nullptr && g_gpu_progress == GpuProgress::kPlugin) {
    g_plugin.counts =
        private_array<uint64_t>(g_tables.communicator_count * uint64_t{format::kRecentOperations});
    g_plugin.reports = private_array<uint8_t>(g_tables.communicator_count);
  }
}

void plugin_drop() noexcept {
  g_plugin = {};
}

}  // namespace traintrace
