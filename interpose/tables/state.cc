// Start, reset and the slow pulse of everything behind state.h.
#include "interpose/tables/state.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "interpose/base/files.h"
#include "interpose/gpu/marks.h"
#include "interpose/gpu/marks_file.h"
#include "interpose/gpu/plugin.h"
#include "interpose/life/call_filters.h"
#include "interpose/nvtx/ranges.h"
#include "interpose/payload/checks.h"
#include "interpose/record/definitions.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/stacks.h"
#include "interpose/tables/allocations.h"
#include "interpose/tables/captures.h"
#include "interpose/tables/communicators.h"
#include "interpose/tables/failures.h"
#include "interpose/tables/host_functions.h"
#include "interpose/tables/kernels.h"
#include "interpose/tables/operations.h"
#include "interpose/tables/streams.h"
#include "interpose/tables/tables.h"
#include "interpose/tables/tensors.h"

namespace traintrace {
namespace {

// Threads name themselves when they like, so names are read again now and then; this many each
// second, which with 1000 threads is each half a minute.
constexpr uint32_t kNamesAtOnce = 32;
uint32_t g_next_name;

void read_name(format::Thread& thread) {
  char path[64];
  Text text(path, sizeof path);
  text << "/proc/self/task/" << int64_t{thread.tid} << "/comm";
  char name[sizeof thread.name + 1];
  size_t length = read_file(path, name, sizeof name);
  while (length > 0 && (name[length - 1] == '\n' || length == sizeof thread.name)) {
    --length;
  }
  if (length > 0) {
    memset(name + length, 0, sizeof name - length);
    memcpy(thread.name, name, sizeof thread.name);
  }
}

bool wants_name(const format::Thread& thread) {
  return load(thread.serial) != 0 && load(thread.ended_ticks) == 0;
}

void read_names() {
  uint32_t left = kNamesAtOnce;
  const uint32_t count = g_tables.thread_count;
  for (uint32_t i = 0; i < count && left > 0; ++i) {  // the nameless first
    if (wants_name(g_tables.threads[i]) && g_tables.threads[i].name[0] == '\0') {
      read_name(g_tables.threads[i]);
      --left;
    }
  }
  for (uint32_t i = 0; i < count && left > 0; ++i) {
    g_next_name = g_next_name + 1 < count ? g_next_name + 1 : 0;
    if (wants_name(g_tables.threads[g_next_name])) {
      read_name(g_tables.threads[g_next_name]);
      --left;
    }
  }
}

}  // namespace

void state_start(format::FileHeader* file) noexcept {
  find_tables(file);
  private_memory_start();
  communicators_start();
  operations_start();
  streams_start();
  marks_start();
  plugin_start();
  captures_start();
  host_functions_start();
  allocations_start();
  tensors_start();
  failures_start();
  definitions_start();
  modules_start();
  stacks_start();
  kernels_start();
  ranges_start();
  g_next_name = 0;
}

// What kernels were registered stays: the child has the same modules.
void state_reset_after_fork() noexcept {
  modules_after_fork();
  ranges_drop();
  kernels_drop();
  stacks_drop();
  modules_drop();
  definitions_drop();
  tensors_drop();
  allocations_drop();
  captures_drop();
  plugin_drop();
  checks_drop();
  marks_drop();
  marks_file_drop();
  streams_drop();
  operations_drop();
  communicators_drop();
  private_memory_drop();
  g_tables = {};
}

void state_tick(ThreadState& own) noexcept {
  define_modules(own);
  if (!call_filters_added()) {
    read_names();
  }
  marks_copy();
  marks_file_alive();
}

void state_exit() noexcept {
  marks_copy();
  marks_file_remove();
}

}  // namespace traintrace
