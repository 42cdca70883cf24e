// Compiled without sibling calls: the real dlsym must see a return address in this library.
#include "interpose/calls/resolve.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>
#include <cstdint>

#include "interpose/base/undisturbed.h"
#include "interpose/calls/elf_next.h"
#include "interpose/calls/layouts.h"
#include "interpose/gpu/device_processes.h"
#include "interpose/life/gpu_identities.h"
#include "interpose/life/gpu_models.h"
#include "interpose/life/versions.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/objects.h"
#include "interpose/tables/host_functions.h"

namespace traintrace {

constinit void* g_originals[kMaxCopies + 1][kSymbolCount] = {};

namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

void* no_dlsym(void*, const char*) {
  return nullptr;
}
void* no_dlvsym(void*, const char*, const char*) {
  return nullptr;
}

}  // namespace

extern "C" {
[[gnu::visibility("hidden")]] constinit Dlsym tt_real_dlsym = nullptr;
[[gnu::visibility("hidden")]] constinit Dlvsym tt_real_dlvsym = nullptr;

[[gnu::visibility("hidden")]] void tt_find_real() noexcept {
  void* const sym = next_definition("dlsym");
  void* const vsym = next_definition("dlvsym");
  tt_real_dlvsym = vsym ? reinterpret_cast<Dlvsym>(vsym) : no_dlvsym;
  tt_real_dlsym = sym ? reinterpret_cast<Dlsym>(sym) : no_dlsym;
}
}

namespace {

// Pointers only: this runs in every process that the preload is in.
[[gnu::constructor]] void find_dlsym() {
  tt_find_real();
}

// What entry_dlsym.S is told: an address is the answer, the real one is to answer, null is.
using Answer = uintptr_t;
constexpr Answer kAskReal = 0;
constexpr Answer kNothing = 1;

// What we ourselves call in it.
void found_library(format::Library library, void* handle) {
  version_sought(library, handle);
  layouts_sought(library, handle);
  gpu_models_sought(library, handle);
  gpu_identities_sought(library, handle);
  if (library == format::Library::Driver && !host_functions_can_ask()) {
    host_functions_may_ask(
        reinterpret_cast<IsCapturing>(real_lookup(handle, "cuStreamIsCapturing")));
  }
}

// We keep a pointer into it, so it must stay even where the program closes it.
void pin(void* function, SymbolId symbol, int copy) {
  const link_map* const map = map_of(function);
  void* const handle = map ? handle_if_loaded(map->l_name, RTLD_NODELETE) : nullptr;
  if (handle) {
    if (copy == 0) {
      found_library(library_of(symbol), handle);
    }
    dlclose(handle);
  }
}

void* ask(void* handle, SymbolId symbol) {
  void* const found = handle ? real_lookup(handle, name_of(symbol)) : nullptr;
  return found == entry_of(symbol) ? nullptr : found;
}

bool has_versions(const link_map& object) {
  const ElfW(Dyn)* entry = object.l_ld;
  while (entry->d_tag != DT_NULL && entry->d_tag != DT_VERDEF) {
    ++entry;
  }
  return entry->d_tag == DT_VERDEF;
}

// As the loader binds a reference to that version, if it is not null: functions without a version,
// as other preloads have them, will do.  dlvsym does not answer with those.
void* ask_version(void* handle, SymbolId symbol, const char* version) {
  void* const found = ask(handle, symbol);
  const link_map* const map = found && version ? map_of(found) : nullptr;
  if (!map || !has_versions(*map)) {
    return found;
  }
  void* const of_version = real_lookup_version(handle, name_of(symbol), version);
  return of_version == entry_of(symbol) ? nullptr : of_version;
}

void* ask_loaded(const char* library, SymbolId symbol, const char* version = nullptr) {
  void* const handle = handle_if_loaded(library);
  void* found = ask_version(handle, symbol, version);
  found = found || !version ? found : ask(handle, symbol);
  if (handle) {
    dlclose(handle);
  }
  return found;
}

// What the caller's own libraries have: it may be loaded with RTLD_LOCAL, out of our sight.
void* ask_for_caller(const void* caller, SymbolId symbol, const char* version = nullptr) {
  const link_map* const map = map_of(caller);
  return map && map->l_name[0] ? ask_loaded(map->l_name, symbol, version) : nullptr;
}

// Of the functions that the caller is linked to.
const char* version_for(const void* caller, SymbolId symbol) {
  const link_map* const map = map_of(caller);
  return map ? needed_version(*map, library_of(symbol)) : nullptr;
}

template <size_t kCount>
void* ask_newest(const char* const (&libraries)[kCount], SymbolId symbol) {
  for (const char* const name : libraries) {
    if (void* const found = ask_loaded(name, symbol)) {
      return found;
    }
  }
  return nullptr;
}

void* ask_by_soname(SymbolId symbol) {
  static constexpr const char* kRuntime[] = {"libcudart.so.13", "libcudart.so.12",
                                             "libcudart.so.11.0"};
  static constexpr const char* kCublas[] = {"libcublas.so.13", "libcublas.so.12",
                                            "libcublas.so.11"};
  static constexpr const char* kCublasLt[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                              "libcublasLt.so.11"};
  switch (library_of(symbol)) {
    case format::Library::Driver:
      return ask_loaded("libcuda.so.1", symbol);
    case format::Library::Nccl:
      return ask_loaded("libnccl.so.2", symbol);
    case format::Library::Cublas:
      return ask_newest(kCublas, symbol);
    case format::Library::CublasLt:
      return ask_newest(kCublasLt, symbol);
    case format::Library::Runtime:
      break;
  }
  return ask_newest(kRuntime, symbol);
}

// What calls by a sibling call is not the caller that we see; wheels may have renamed the library.
void* ask_vendors(SymbolId symbol) {
  if (void* const found = ask_by_soname(symbol)) {
    return found;
  }
  char path[1024];
  return path_of_any_copy(library_of(symbol), path, sizeof path) ? ask_loaded(path, symbol)
                                                                 : nullptr;
}

void* adopt(void* real, SymbolId symbol, int copy) {
  void* expected = nullptr;
  if (__atomic_compare_exchange_n(&g_originals[copy][symbol], &expected, real, false,
                                  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    pin(real, symbol, copy);
    return real;
  }
  return expected;
}

// The first library that a function of `library` was taken from, where none is in sight of all.
bool is_first_copy(void* real, SymbolId symbol) {
  static constinit const link_map* firsts[format::kLibraryCount] = {};
  const link_map*& first = firsts[static_cast<int>(library_of(symbol))];
  const link_map* const map = map_of(real);
  const link_map* expected = nullptr;
  return __atomic_compare_exchange_n(&first, &expected, map, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED) ||
         expected == map;
}

// What one copy has made means nothing to another, be it a handle or a kernel that was registered
// with the runtime: all functions of copy 0 must be of one library.  What is no vendor's
// (exports.def) is counted as the runtime's, but has no entry.
bool is_of_one_library(SymbolId symbol) {
  return library_of(symbol) != format::Library::Driver && entry_of(symbol) != nullptr;
}

// With one function all of its library: a later call may come from a thread that another one waits
// for while it holds the loader's lock, as constructors and destructors of libraries do.  0.1 ms,
// once for each copy.  `version`: as its callers are linked to it.
void adopt_rest(void* first, SymbolId of, int copy, const char* version) {
  const format::Library library = library_of(of);
  static constinit bool done[format::kLibraryCount][kMaxCopies] = {};
  if (entry_of(of) == nullptr ||
      __atomic_exchange_n(&done[static_cast<int>(library)][copy], true, __ATOMIC_RELAXED)) {
    return;
  }
  const link_map* const map = map_of(first);
  void* const own = map && map->l_name[0] ? handle_if_loaded(map->l_name) : nullptr;
  for (SymbolId symbol = 0; own && symbol < kSymbolCount; ++symbol) {
    if (library_of(symbol) != library || entry_of(symbol) == nullptr ||
        __atomic_load_n(&g_originals[copy][symbol], __ATOMIC_RELAXED) != nullptr) {
      continue;
    }
    void* const in_own = ask(own, symbol);
    void* const in_sight = ask_version(RTLD_NEXT, symbol, version);
    if (in_sight && in_sight != in_own) {
      adopt(in_sight, symbol, copy);  // of another library, which has to stay, too
    } else if (in_own) {
      void* expected = nullptr;
      __atomic_compare_exchange_n(&g_originals[copy][symbol], &expected, in_own, false,
                                  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
  }
  if (own) {
    dlclose(own);
  }
}

bool is_in_front_of_us(const void* caller) {
  const link_map* const theirs = map_of(caller);
  const link_map* map = map_of(reinterpret_cast<const void*>(&find_original));
  while (map && map != theirs) {
    map = map->l_prev;
  }
  return theirs && map == theirs;
}

// None of the vendors' functions that are recorded.
Answer filter_other(void* handle, const char* name) {
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !asks_for_processes(name)) {
    return kAskReal;
  }
  void* const real = tt_real_dlsym(handle, name);
  return real ? reinterpret_cast<Answer>(listens_to_processes(real)) : kNothing;
}

// No library has it, and dlerror() must say so: callers print it.
Answer nothing(SymbolId symbol) {
  real_lookup(RTLD_NEXT, name_of(symbol));
  return kNothing;
}

// dlsym of a special handle answers by who calls, so the real one must do it.  But where only our
// entry would be found, no library has the function, and that must be the answer.
Answer filter_special(void* handle, SymbolId symbol, const void* caller) {
  if (ask(RTLD_NEXT, symbol)) {
    return kAskReal;
  }
  if (handle == RTLD_DEFAULT) {
    return ask_for_caller(caller, symbol) ? kAskReal : nothing(symbol);
  }
  return is_in_front_of_us(caller) ? nothing(symbol) : kAskReal;
}

}  // namespace

void* real_lookup(void* handle, const char* name) noexcept {
  if (!tt_real_dlsym) {
    tt_find_real();
  }
  return tt_real_dlsym(handle, name);
}

void* real_lookup_version(void* handle, const char* name, const char* version) noexcept {
  if (!tt_real_dlvsym) {
    tt_find_real();
  }
  return tt_real_dlvsym(handle, name, version);
}

void* meant_by(const void* caller, SymbolId symbol) noexcept {
  const char* const version = version_for(caller, symbol);
  void* const found = ask_version(RTLD_NEXT, symbol, version);
  return found ? found : ask_for_caller(caller, symbol, version);
}

void* find_original(SymbolId symbol, int copy, const void* caller) noexcept {
  const Undisturbed undisturbed;
  const int saved_errno = errno;
  void* found = nullptr;
  bool is_of_copy = copy != kCopyOfCaller;
  if (copy) {
    found = meant_by(caller, symbol);
    found = found || !is_of_copy ? found : ask(handle_of_copy(library_of(symbol), copy), symbol);
  } else if (found = ask(RTLD_NEXT, symbol); !found) {
    found = ask_for_caller(caller, symbol);
    found = found ? found : ask_vendors(symbol);
    is_of_copy = found && (!is_of_one_library(symbol) || is_first_copy(found, symbol) ||
                           is_only_copy(library_of(symbol)));
  }
  if (found && is_of_copy) {
    found = adopt(found, symbol, copy);
    adopt_rest(found, symbol, copy, copy ? version_for(caller, symbol) : nullptr);
  } else if (!found) {
    count(format::Stat::MissingOriginal);
  }
  dlerror();  // the program shall not find the failures of our attempts
  errno = saved_errno;
  return found;
}

void* entry_instead_of(void* real, SymbolId symbol) noexcept {
  void* const entry = entry_of(symbol);
  void* known = __atomic_load_n(&g_originals[0][symbol], __ATOMIC_RELAXED);
  known = known ? known : ask(RTLD_NEXT, symbol);
  if (real == entry) {
    return entry;
  }
  if (known ? real == known : is_first_copy(real, symbol)) {
    adopt(real, symbol, 0);
    adopt_rest(real, symbol, 0, nullptr);
    return entry;
  }
  count(format::Stat::SecondCopy);
  return real;
}

extern "C" [[gnu::visibility("hidden")]] uintptr_t tt_filter_dlsym(void* handle, const char* name,
                                                                   const char* version,
                                                                   const void* caller) noexcept {
  const SymbolId symbol = name ? find_symbol(name) : kNoSymbol;
  if (symbol == kNoSymbol || !entry_of(symbol)) {
    return name && !version ? filter_other(handle, name) : kAskReal;
  }
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) {
    return filter_special(handle, symbol, caller);
  }
  void* const real = version ? tt_real_dlvsym(handle, name, version) : tt_real_dlsym(handle, name);
  if (!real) {
    return kNothing;
  }
  if (real == entry_of(symbol)) {  // by the handle of the main program
    const bool nowhere = filter_special(RTLD_DEFAULT, symbol, caller) == kNothing;
    return nowhere ? kNothing : reinterpret_cast<Answer>(real);
  }
  void* const answer = entry_instead_of(real, symbol);
  dlerror();
  return reinterpret_cast<Answer>(answer);
}

}  // namespace traintrace
