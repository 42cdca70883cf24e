#include "interpose/calls/copies.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstring>

#include "interpose/base/files.h"
#include "interpose/base/guard.h"
#include "interpose/base/undisturbed.h"
#include "interpose/calls/resolve.h"
#include "interpose/life/arming.h"
#include "interpose/stacks/loader_walk.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/objects.h"

namespace traintrace {

constinit uint64_t g_caller_pages[kCallerPages] = {};

namespace {

using format::Library;

struct Copy {
  const link_map* map;
  void* handle;
};
// By library and number; filled in order.
constinit Copy g_copies[format::kLibraryCount][kMaxCopies] = {};
constinit uint32_t g_adding = 0;

bool is_called(Library library, const char* path) {
  const char* const slash = strrchr(path, '/');
  const char* const name = slash ? slash + 1 : path;
  switch (library) {
    case Library::Runtime:
      return starts_with(name, "libcudart");
    case Library::Driver:
      return starts_with(name, "libcuda.so");
    case Library::Nccl:
      return starts_with(name, "libnccl.so") || starts_with(name, "libnccl-");
    case Library::Cublas:
      return starts_with(name, "libcublas.so") || starts_with(name, "libcublas-");
    case Library::CublasLt:
      return starts_with(name, "libcublasLt.so") || starts_with(name, "libcublasLt-");
  }
  return false;
}

struct Census {
  unsigned long long loads;  // the loader's counter at the time
  int count[format::kLibraryCount];
};
constinit Census g_census = {};

int take_census(dl_phdr_info* info, size_t, void* context) {
  Census& census = *static_cast<Census*>(context);
  if (info->dlpi_adds == __atomic_load_n(&g_census.loads, __ATOMIC_ACQUIRE)) {
    return 1;
  }
  census.loads = info->dlpi_adds;
  for (size_t i = 0; i < format::kLibraryCount; ++i) {
    census.count[i] += is_called(static_cast<Library>(i), info->dlpi_name) ? 1 : 0;
  }
  return 0;
}

void renew_census() {
  Census census = {};
  if (walk_loader(take_census, &census) == 0) {
    for (size_t i = 0; i < format::kLibraryCount; ++i) {
      __atomic_store_n(&g_census.count[i], census.count[i], __ATOMIC_RELAXED);
    }
    __atomic_store_n(&g_census.loads, census.loads, __ATOMIC_RELEASE);
  }
}

// In a forked child, the loader's lock may be held for ever by a thread that is not there: what the
// parent knew must do, until recording has started and the lock is known to be free.
bool may_ask_the_loader() {
  return is_process_of_load() || (armed_generation() && loader_can_be_asked());
}

bool has_several_copies(Library library) {
  if (may_ask_the_loader()) {
    renew_census();
  }
  return __atomic_load_n(&g_census.count[static_cast<int>(library)], __ATOMIC_RELAXED) > 1;
}

struct Search {
  Library library;
  char* path;
  size_t size;
};

int look_for_copy(dl_phdr_info* info, size_t, void* context) {
  const Search& search = *static_cast<Search*>(context);
  const size_t length = strlen(info->dlpi_name);
  if (length >= search.size || !is_called(search.library, info->dlpi_name)) {
    return 0;
  }
  memcpy(search.path, info->dlpi_name, length + 1);
  return 1;
}

// The function that the caller's own libraries have, or null.
void* in_reach_of(const void* caller, const char* function) {
  const link_map* const map = map_of(caller);
  void* const handle = map && map->l_name[0] ? handle_if_loaded(map->l_name) : nullptr;
  void* const found = handle ? real_lookup(handle, function) : nullptr;
  if (handle) {
    dlclose(handle);
  }
  return found;
}

// Number of the copy, added if it is new; 0 where there is no room.
int number_of(Library library, const link_map* map) {
  Copy* const copies = g_copies[static_cast<int>(library)];
  int result = 0;
  while (__atomic_exchange_n(&g_adding, 1, __ATOMIC_ACQUIRE)) {
  }
  for (int i = 1; i < kMaxCopies; ++i) {
    if (!copies[i].map) {
      copies[i] = {map, handle_if_loaded(map->l_name, RTLD_NODELETE)};
    }
    if (copies[i].map == map) {
      result = i;
      break;
    }
  }
  __atomic_store_n(&g_adding, 0, __ATOMIC_RELEASE);
  return result;
}

int classify(Library library, SymbolId symbol, const void* caller) {
  void* const found = original_of_copy(symbol, 0, caller);
  void* const meant = in_reach_of(caller, name_of(symbol));
  const link_map* const map = meant && meant != entry_of(symbol) ? map_of(meant) : nullptr;
  if (!map || !found) {
    return 0;
  }
  // Null: what was found for this caller is not copy 0's.
  void* const first = __atomic_load_n(&g_originals[0][symbol], __ATOMIC_ACQUIRE);
  return first && map == map_of(first) ? 0 : number_of(library, map);
}

void remember(Library library, const void* caller, int copy) {
  const uint64_t page = reinterpret_cast<uint64_t>(caller) >> 12;
  uint64_t& place = g_caller_pages[page % kCallerPages];
  const uint64_t old = __atomic_load_n(&place, __ATOMIC_RELAXED);
  const uint64_t same_page = old >> kCopyBits == page ? old : page << kCopyBits;
  __atomic_store_n(&place,
                   same_page | static_cast<uint64_t>(copy + 1) << (2 * static_cast<int>(library)),
                   __ATOMIC_RELAXED);
}

}  // namespace

bool is_vendor_library(const char* path) noexcept {
  return is_called(Library::Runtime, path) || is_called(Library::Driver, path) ||
         is_called(Library::Nccl, path);
}

int find_copy(Library library, SymbolId symbol, const void* caller) noexcept {
  const Undisturbed undisturbed;
  const int saved_errno = errno;
  const int copy = has_several_copies(library) ? classify(library, symbol, caller) : 0;
  remember(library, caller, copy);
  errno = saved_errno;
  return copy;
}

bool is_only_copy(Library library) noexcept {
  return __atomic_load_n(&g_census.count[static_cast<int>(library)], __ATOMIC_RELAXED) <= 1;
}

bool path_of_any_copy(Library library, char* path, size_t size) noexcept {
  Search search = {library, path, size};
  return may_ask_the_loader() && walk_loader(look_for_copy, &search) != 0;
}

void* handle_of_copy(Library library, int copy) noexcept {
  return g_copies[static_cast<int>(library)][copy].handle;
}

}  // namespace traintrace
