#include "interpose/calls/copies.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstring>

#include "interpose/base/files.h"
#include "interpose/base/guard.h"
#include "interpose/base/undisturbed.h"
#include "interpose/calls/elf_next.h"
#include "interpose/calls/resolve.h"
#include "interpose/calls/unloads.h"
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
// By library and number; filled in order, and never changed then.
constinit Copy g_copies[format::kLibraryCount][kMaxCopies] = {};

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

// A runtime that is linked into a library, and exported from there, is a copy as any other.
bool has_functions_of(Library library, const dl_phdr_info& info) {
  switch (library) {
    case Library::Runtime:
      return defines_function(info, "__cudaRegisterFatBinary") ||
             defines_function(info, "cudaMalloc");
    case Library::Driver:
      return defines_function(info, "cuInit");
    case Library::Nccl:
      return defines_function(info, "ncclGetUniqueId");
    case Library::Cublas:
      return defines_function(info, "cublasCreate_v2");
    case Library::CublasLt:
      return defines_function(info, "cublasLtMatmul");
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
    const auto library = static_cast<Library>(i);
    census.count[i] +=
        is_called(library, info->dlpi_name) || has_functions_of(library, *info) ? 1 : 0;
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

// Number of the copy, added if it is new.
int number_of(Library library, const link_map* map) {
  Copy* const copies = g_copies[static_cast<int>(library)];
  for (int i = 1; i < kMaxCopies; ++i) {
    const link_map* there = nullptr;
    if (__atomic_compare_exchange_n(&copies[i].map, &there, map, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE) ||
        there == map) {
      return i;
    }
  }
  return kCopyOfCaller;
}

int classify(Library library, SymbolId symbol, const void* caller) {
  void* const meant = meant_by(caller, symbol);
  const link_map* const map = meant && meant != entry_of(symbol) ? map_of(meant) : nullptr;
  if (!map || !original_of_copy(symbol, 0, caller)) {
    return 0;
  }
  // Null: what was found for this caller is not copy 0's.
  void* const first = __atomic_load_n(&g_originals[0][symbol], __ATOMIC_ACQUIRE);
  return first && map == map_of(first) ? 0 : number_of(library, map);
}

// Of pages whose place belongs to another one: two that are called from in turn must not be looked
// into again and again.
constinit uint64_t g_more_pages[kCallerPages] = {};

uint64_t& second_place_of(uint64_t page) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  return g_more_pages[page * kMix >> 32 & (kCallerPages - 1)];
}

void remember(Library library, const void* caller, int copy) {
  const uint64_t page = page_of_caller(caller);
  const uint64_t first = __atomic_load_n(&g_caller_pages[page % kCallerPages], __ATOMIC_RELAXED);
  const bool is_free = first == 0 || first >> kCopyBits == page;
  uint64_t& place = is_free ? g_caller_pages[page % kCallerPages] : second_place_of(page);
  const uint64_t old = __atomic_load_n(&place, __ATOMIC_RELAXED);
  const uint64_t same_page = old >> kCopyBits == page ? old : page << kCopyBits;
  __atomic_store_n(&place,
                   same_page | static_cast<uint64_t>(copy + 1)
                                   << (kBitsOfCopy * static_cast<int>(library)),
                   __ATOMIC_RELAXED);
}

}  // namespace

void look_for_unloads() noexcept {
  static constinit uint64_t seen = 0;
  uint64_t unloads = 0;
  const auto take = [](dl_phdr_info* info, size_t, void* into) {
    *static_cast<uint64_t*>(into) = info->dlpi_subs;
    return 1;
  };
  if (!may_ask_the_loader() || walk_loader(take, &unloads) == 0 ||
      __atomic_exchange_n(&seen, unloads, __ATOMIC_RELAXED) == unloads) {
    return;
  }
  for (int i = 0; i < kCallerPages; ++i) {
    __atomic_store_n(&g_caller_pages[i], uint64_t{0}, __ATOMIC_RELAXED);
    __atomic_store_n(&g_more_pages[i], uint64_t{0}, __ATOMIC_RELAXED);
  }
}

bool is_vendor_library(const char* path) noexcept {
  return is_called(Library::Runtime, path) || is_called(Library::Driver, path) ||
         is_called(Library::Nccl, path);
}

// Apart, since it needs more stack.
[[gnu::noinline]] static int find_new_copy(Library library, SymbolId symbol,
                                           const void* caller) noexcept {
  const Undisturbed undisturbed;
  const int saved_errno = errno;
  const int copy = has_several_copies(library) ? classify(library, symbol, caller) : 0;
  remember(library, caller, copy);
  errno = saved_errno;
  return copy;
}

int find_copy(Library library, SymbolId symbol, const void* caller) noexcept {
  const uint64_t page = page_of_caller(caller);
  const int known =
      copy_known(__atomic_load_n(&second_place_of(page), __ATOMIC_RELAXED), page, library);
  return known >= 0 ? known : find_new_copy(library, symbol, caller);
}

bool is_only_copy(Library library) noexcept {
  return __atomic_load_n(&g_census.count[static_cast<int>(library)], __ATOMIC_RELAXED) <= 1;
}

bool path_of_any_copy(Library library, char* path, size_t size) noexcept {
  Search search = {library, path, size};
  return may_ask_the_loader() && walk_loader(look_for_copy, &search) != 0;
}

void* handle_of_copy(Library library, int copy) noexcept {
  Copy& of = g_copies[static_cast<int>(library)][copy];
  void* handle = __atomic_load_n(&of.handle, __ATOMIC_ACQUIRE);
  const link_map* const map = __atomic_load_n(&of.map, __ATOMIC_ACQUIRE);
  if (!handle && map) {  // two threads that come at once get the same
    handle = handle_if_loaded(map->l_name, RTLD_NODELETE);
    __atomic_store_n(&of.handle, handle, __ATOMIC_RELEASE);
  }
  return handle;
}

const char* needed_version(const link_map& object, Library library) noexcept {
  const auto address = [&](const ElfW(Dyn) & entry) {  // as in elf_next.cc
    const uint64_t value = entry.d_un.d_ptr;
    return reinterpret_cast<const char*>(value < object.l_addr ? object.l_addr + value : value);
  };
  const char* strings = nullptr;
  const char* needed = nullptr;
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
    strings = entry->d_tag == DT_STRTAB ? address(*entry) : strings;
    needed = entry->d_tag == DT_VERNEED ? address(*entry) : needed;
  }
  while (strings && needed) {
    const auto& of_file = *reinterpret_cast<const ElfW(Verneed)*>(needed);
    if (is_called(library, strings + of_file.vn_file)) {
      const auto& version = *reinterpret_cast<const ElfW(Vernaux)*>(needed + of_file.vn_aux);
      return strings + version.vna_name;
    }
    needed = of_file.vn_next != 0 ? needed + of_file.vn_next : nullptr;
  }
  return nullptr;
}

}  // namespace traintrace
