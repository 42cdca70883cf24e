#include "interpose/stacks/modules.h"

#include <link.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "interpose/record/map_memory.h"
#include "interpose/stacks/loader_walk.h"
#include "interpose/stacks/modules_elf.h"

namespace traintrace {
namespace {

// Triton alone loads one library per compiled kernel.
constexpr size_t kMaxModules = 8192;

// Records are never freed nor changed once published, so a reader may keep a pointer for ever.  One
// that comes back exactly as it was gets its old record: a loop of dlopen and dlclose needs no
// room.
// The one behind the last is for comparing.  Mapped by the first refresh: most processes that load
// this library never look, and some have their memory locked.
Module* g_records;
size_t g_record_count;  // of the refresher

bool has_records() noexcept {
  if (g_records == nullptr) {
    g_records = static_cast<Module*>(map_sparse((kMaxModules + 1) * sizeof(Module)));
  }
  return g_records != nullptr;
}

// The published table: sorted addresses in one of two arrays, the version's parity says which.  A
// writer fills the other one and then raises the version; a reader that finds the version changed
// after its search looks again.
struct SortedModules {
  std::atomic<uint32_t> count;
  std::atomic<uint64_t> begin[kMaxModules];
  std::atomic<const Module*> module[kMaxModules];
};
SortedModules g_sorted[2];
std::atomic<uint64_t> g_version{0};
std::atomic<uint64_t> g_unloads{0};
std::atomic<uint64_t> g_lost{0};

std::atomic<bool> g_refreshing{false};
std::atomic<bool> g_lock_in_doubt{false};
std::atomic<ModuleListener> g_listener{nullptr};
std::atomic<bool> g_listener_is_new{false};

// Belong to whoever holds g_refreshing.
const Module* g_current[kMaxModules];
const Module* g_previous[kMaxModules];
size_t g_current_count;
size_t g_previous_count;
// The loader's counters when the published table was made; stored after it.
std::atomic<uint64_t> g_seen_loads{0};
std::atomic<uint64_t> g_seen_unloads{0};

bool has_counters(size_t bytes) noexcept {
  // A program may bring a dl_iterate_phdr of its own, with the older, shorter struct.
  return bytes >= offsetof(dl_phdr_info, dlpi_subs) + sizeof(dl_phdr_info::dlpi_subs);
}

bool is_current(const dl_phdr_info& info, size_t bytes) noexcept {
  return has_counters(bytes) && info.dlpi_adds == g_seen_loads.load(std::memory_order_acquire) &&
         info.dlpi_subs == g_seen_unloads.load(std::memory_order_acquire);
}

bool by_begin(const Module* a, const Module* b) noexcept {
  return a->begin < b->begin;
}

bool is_same(const Segment& a, const Segment& b) noexcept {
  return a.begin == b.begin && a.end == b.end && a.readable == b.readable &&
         a.executable == b.executable;
}

bool is_same(const Module& a, const Module& b) noexcept {
  return a.begin == b.begin && a.end == b.end && a.bias == b.bias &&
         a.eh_frame_hdr == b.eh_frame_hdr && a.eh_frame_hdr_bytes == b.eh_frame_hdr_bytes &&
         a.build_id_bytes == b.build_id_bytes &&
         memcmp(a.build_id, b.build_id, a.build_id_bytes) == 0 && strcmp(a.path, b.path) == 0 &&
         std::equal(a.segments, a.segments + a.segment_count, b.segments,
                    b.segments + b.segment_count,
                    [](const Segment& x, const Segment& y) { return is_same(x, y); });
}

// Null: no room.
const Module* record_for(Module& fresh) noexcept {
  const Module* const* end = g_previous + g_previous_count;
  const Module* const* previous =
      std::lower_bound<const Module* const*, const Module*>(g_previous, end, &fresh, by_begin);
  if (previous != end && is_same(fresh, **previous)) {
    return *previous;
  }
  for (size_t i = 0; i < g_record_count; ++i) {
    if (is_same(fresh, g_records[i])) {
      return &g_records[i];
    }
  }
  if (g_record_count == kMaxModules) {
    return nullptr;
  }
  fresh.id = static_cast<uint32_t>(g_record_count);
  return &g_records[g_record_count++];
}

void start_over() noexcept {
  std::copy(g_current, g_current + g_current_count, g_previous);
  g_previous_count = g_current_count;
  g_current_count = 0;
}

struct Collected {
  bool first = true;
  bool unchanged = false;
  uint64_t loads = 0;
  uint64_t unloads = 0;
  uint64_t lost = 0;
};

int collect(dl_phdr_info* info, size_t bytes, void* context) noexcept {
  auto& collected = *static_cast<Collected*>(context);
  if (collected.first) {
    collected.first = false;
    if (is_current(*info, bytes)) {
      collected.unchanged = true;
      return 1;
    }
    if (has_counters(bytes)) {
      collected.loads = info->dlpi_adds;
      collected.unloads = info->dlpi_subs;
    }
    start_over();
  }
  Module& fresh = g_records[g_record_count];
  if (!read_module(*info, fresh)) {
    return 0;
  }
  const Module* module = g_current_count < kMaxModules ? record_for(fresh) : nullptr;
  if (module != nullptr) {
    g_current[g_current_count++] = module;
  } else {
    ++collected.lost;
  }
  return 0;
}

void publish(bool unloaded) noexcept {
  const uint64_t version = g_version.load(std::memory_order_relaxed) + 1;
  SortedModules& into = g_sorted[version & 1];
  for (size_t i = 0; i < g_current_count; ++i) {
    into.begin[i].store(g_current[i]->begin, std::memory_order_relaxed);
    into.module[i].store(g_current[i], std::memory_order_relaxed);
  }
  into.count.store(static_cast<uint32_t>(g_current_count), std::memory_order_relaxed);
  if (unloaded) {
    g_unloads.fetch_add(1, std::memory_order_relaxed);
  }
  g_version.store(version, std::memory_order_release);
}

// What is in `from` and not in `in`; both sorted.
size_t report_missing(const Module* const* from, size_t from_count, const Module* const* in,
                      size_t in_count, ModuleListener listener, bool loaded) noexcept {
  size_t missing = 0;
  for (size_t i = 0, j = 0; i < from_count; ++i) {
    while (j < in_count && in[j]->begin < from[i]->begin) {
      ++j;
    }
    if (j < in_count && in[j] == from[i]) {
      continue;
    }
    ++missing;
    if (listener != nullptr) {
      listener(*from[i], loaded);
    }
  }
  return missing;
}

ModulesRefresh refresh_alone() noexcept {
  ModuleListener listener = g_listener.load(std::memory_order_acquire);
  if (g_listener_is_new.exchange(false)) {
    report_missing(g_current, g_current_count, nullptr, 0, listener, true);
  }
  Collected collected;
  walk_loader(collect, &collected);
  if (collected.unchanged || collected.first) {
    return ModulesRefresh::kUnchanged;
  }
  g_lost.store(collected.lost, std::memory_order_relaxed);
  std::sort(g_current, g_current + g_current_count, by_begin);
  const size_t gone =
      report_missing(g_previous, g_previous_count, g_current, g_current_count, listener, false);
  const size_t came =
      report_missing(g_current, g_current_count, g_previous, g_previous_count, listener, true);
  // One that went and came back unchanged may have left other code where it was in between.
  const bool unloaded =
      gone > 0 || collected.unloads != g_seen_unloads.load(std::memory_order_relaxed);
  if (gone > 0 || came > 0 || unloaded) {
    publish(unloaded);
  }
  g_seen_loads.store(collected.loads, std::memory_order_release);
  g_seen_unloads.store(collected.unloads, std::memory_order_release);
  return gone > 0 || came > 0 ? ModulesRefresh::kChanged : ModulesRefresh::kUnchanged;
}

struct Wanted {
  uint64_t address;
  ModuleBody body;
  void* context;
  bool first = true;
};

bool has(const dl_phdr_info& info, uint64_t address) noexcept {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    if (header.p_type == PT_LOAD && address - info.dlpi_addr - header.p_vaddr < header.p_memsz) {
      return true;
    }
  }
  return false;
}

// Not inlined: whoever asks about known modules may have little room on its stack.
[[gnu::noinline]] void run_with_layout(const dl_phdr_info& info, const Wanted& wanted) noexcept {
  Module module{};
  wanted.body(read_layout(info, module) ? &module : nullptr, wanted.context);
}

int run_if_wanted(dl_phdr_info* info, size_t bytes, void* context) noexcept {
  auto& wanted = *static_cast<Wanted*>(context);
  if (wanted.first && is_current(*info, bytes)) {
    wanted.body(module_of(wanted.address), wanted.context);
    return 1;
  }
  wanted.first = false;
  if (!has(*info, wanted.address)) {
    return 0;
  }
  run_with_layout(*info, wanted);
  return 1;
}

// If the lock is held for ever, only this thread waits.
void* take_lock_once(void*) {
  walk_loader([](dl_phdr_info*, size_t, void*) { return 1; }, nullptr);
  g_lock_in_doubt.store(false);
  return nullptr;
}

void start_without_signals(void* (*body)(void*)) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  pthread_create(&thread, &attributes, body, nullptr);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void listen_to_modules(ModuleListener listener) noexcept {
  g_listener.store(listener, std::memory_order_release);
  g_listener_is_new.store(listener != nullptr);
}

ModulesRefresh refresh_modules() noexcept {
  if (g_lock_in_doubt.load() || g_refreshing.exchange(true, std::memory_order_acquire)) {
    return ModulesRefresh::kNotLooked;
  }
  const ModulesRefresh done = has_records() ? refresh_alone() : ModulesRefresh::kNotLooked;
  g_refreshing.store(false, std::memory_order_release);
  return done;
}

const Module* module_of(uint64_t address) noexcept {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint64_t version = g_version.load(std::memory_order_acquire);
    const SortedModules& in = g_sorted[version & 1];
    size_t low = 0;
    size_t count = in.count.load(std::memory_order_acquire);
    while (count > 0) {
      const size_t half = count / 2;
      if (in.begin[low + half].load(std::memory_order_acquire) <= address) {
        low += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    const Module* found = low == 0 ? nullptr : in.module[low - 1].load(std::memory_order_acquire);
    // All of it was read before this: had a writer begun with this array, the version would tell.
    if (g_version.load(std::memory_order_relaxed) == version) {
      return found != nullptr && address < found->end ? found : nullptr;
    }
  }
  return nullptr;
}

bool loader_can_be_asked() noexcept {
  return !g_lock_in_doubt.load();
}

bool with_module_at(uint64_t address, ModuleBody body, void* context) noexcept {
  if (!loader_can_be_asked()) {
    return false;
  }
  Wanted wanted{address, body, context};
  if (walk_loader(run_if_wanted, &wanted) == 0) {
    body(nullptr, context);
  }
  if (!wanted.first) {
    refresh_modules();
  }
  return true;
}

uint64_t modules_version() noexcept {
  return g_version.load(std::memory_order_relaxed);
}
uint64_t modules_unloads() noexcept {
  return g_unloads.load(std::memory_order_relaxed);
}
uint64_t modules_lost() noexcept {
  return g_lost.load(std::memory_order_relaxed);
}

void modules_after_fork() noexcept {
  g_lock_in_doubt.store(true);
  if (g_refreshing.load(std::memory_order_relaxed)) {
    const SortedModules& in = g_sorted[g_version.load(std::memory_order_relaxed) & 1];
    g_current_count = in.count.load(std::memory_order_relaxed);
    for (size_t i = 0; i < g_current_count; ++i) {
      g_current[i] = in.module[i].load(std::memory_order_relaxed);
    }
    g_seen_loads.store(0, std::memory_order_relaxed);  // look again
    g_refreshing.store(false, std::memory_order_release);
  }
  start_without_signals(take_lock_once);
}

}  // namespace traintrace
