// Every function under its own name.  NOLINTNEXTLINE(bugprone-reserved-identifier)
#define __CUDA_API_VERSION_INTERNAL
#include "interpose/calls/proc_address.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "interpose/base/files.h"
#include "interpose/base/undisturbed.h"
#include "interpose/calls/resolve.h"
#include "interpose/life/versions.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/objects.h"

namespace traintrace {
namespace {

struct Pair {
  void* real;
  SymbolId symbol;
};
// Every function of ours that the driver exports, by address.
constinit Pair g_driver[kSymbolCount] = {};
constinit size_t g_driver_count = 0;
enum BuildState : uint32_t { kNotBuilt, kBuilding, kBuildsLong, kBuilt };
constinit uint32_t g_built = kNotBuilt;

void build(const void* driver_function) {
  Dl_info info;
  void* map = nullptr;
  void* const handle = dladdr1(driver_function, &info, &map, RTLD_DL_LINKMAP)
                           ? dlopen(static_cast<link_map*>(map)->l_name, RTLD_LAZY | RTLD_NOLOAD)
                           : nullptr;
  for (SymbolId symbol = 0; handle && symbol < kSymbolCount; ++symbol) {
    if (library_of(symbol) != format::Library::Driver || !entry_of(symbol)) {
      continue;
    }
    void* const real = real_lookup(handle, name_of(symbol));
    if (real && entry_instead_of(real, symbol) == entry_of(symbol)) {
      g_driver[g_driver_count++] = {real, symbol};
    }
  }
  if (handle) {
    dlclose(handle);
  }
  std::sort(g_driver, g_driver + g_driver_count,
            [](const Pair& a, const Pair& b) { return a.real < b.real; });
  dlerror();
}

// False: another thread is still at it, or was in the parent of this forked child.
bool is_built(const void* driver_function) {
  constexpr int kSteps = 100;
  constexpr timespec kStep = {0, 1'000'000};
  uint32_t state = kNotBuilt;
  if (__atomic_compare_exchange_n(&g_built, &state, kBuilding, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    const Undisturbed undisturbed;  // or nobody would ever be done with it
    build(driver_function);
    __atomic_store_n(&g_built, kBuilt, __ATOMIC_RELEASE);
    return true;
  }
  for (int i = 0; i < kSteps && state == kBuilding; ++i) {
    syscall(SYS_nanosleep, &kStep, nullptr);  // no cancellation point
    state = __atomic_load_n(&g_built, __ATOMIC_ACQUIRE);
  }
  if (state == kBuilding) {  // no other call waits
    __atomic_compare_exchange_n(&g_built, &state, kBuildsLong, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
  }
  return state == kBuilt;
}

// A newer version of a function that is intercepted, not one that never is.
void count_if_unknown(const char* name) {
  char versioned[128];
  Text text(versioned, sizeof versioned);
  text << name << "_v2";
  if (find_symbol(name) != kNoSymbol || find_symbol(versioned) != kNoSymbol) {
    count(format::Stat::UnhookedSymbol);
  }
}

bool is_entry(const void* function) {
  return std::find(tt_entries, tt_entries + kSymbolCount, function) != tt_entries + kSymbolCount;
}

template <class Function>
Function* real_of(Export function, const void* caller) {
  const SymbolId symbol = symbol_of(function);
  return reinterpret_cast<Function*>(original(library_of(symbol), symbol, caller));
}

// Private tables of the driver: the runtime alone knows what is in them.
void look_for_runtime(const char* name, const void* caller) {
  if (name && equal(name, "cuGetExportTable")) {
    runtime_asks(caller);
  }
}

template <class Result>
Result answer(Result result, const char* name, void** function) {
  if (result == Result{} && name && function && *function) {
    const int saved_errno = errno;
    *function = entry_for_driver(name, *function);
    errno = saved_errno;
  }
  return result;
}

}  // namespace

void* entry_for_driver(const char* name, void* real) noexcept {
  const Pair* const end = g_driver + (is_built(real) ? g_driver_count : 0);
  const Pair* const pair =
      std::lower_bound(static_cast<const Pair*>(g_driver), end, real,
                       [](const Pair& a, const void* b) { return a.real < b; });
  if (pair != end && pair->real == real) {
    return entry_of(pair->symbol);
  }
  if (!is_entry(real)) {  // of ours, where a runtime asked us on the way
    count_if_unknown(name);
  }
  return real;
}

extern "C" {
// Called what exports.def says.  NOLINTBEGIN(readability-identifier-naming)

CUresult tt_hook_cuGetProcAddress(const char* name, void** function, int version,
                                  cuuint64_t flags) {
  look_for_runtime(name, __builtin_return_address(0));
  auto* const real =
      real_of<decltype(cuGetProcAddress)>(Export::cuGetProcAddress, __builtin_return_address(0));
  return real ? answer(real(name, function, version, flags), name, function) : CUDA_ERROR_NOT_FOUND;
}

CUresult tt_hook_cuGetProcAddress_v2(const char* name, void** function, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  look_for_runtime(name, __builtin_return_address(0));
  auto* const real = real_of<decltype(cuGetProcAddress_v2)>(Export::cuGetProcAddress_v2,
                                                            __builtin_return_address(0));
  return real ? answer(real(name, function, version, flags, status), name, function)
              : CUDA_ERROR_NOT_FOUND;
}

#define TT_ENTRY_POINT(exported)                                                                   \
  cudaError_t tt_hook_##exported(const char* name, void** function, unsigned long long flags,      \
                                 cudaDriverEntryPointQueryResult* status) {                        \
    auto* const real =                                                                             \
        real_of<decltype(cudaGetDriverEntryPoint)>(Export::exported, __builtin_return_address(0)); \
    return real ? answer(real(name, function, flags, status), name, function)                      \
                : cudaErrorSharedObjectSymbolNotFound;                                             \
  }
#define TT_ENTRY_POINT_BY_VERSION(exported)                                            \
  cudaError_t tt_hook_##exported(const char* name, void** function, unsigned version,  \
                                 unsigned long long flags,                             \
                                 cudaDriverEntryPointQueryResult* status) {            \
    auto* const real = real_of<decltype(cudaGetDriverEntryPointByVersion)>(            \
        Export::exported, __builtin_return_address(0));                                \
    return real ? answer(real(name, function, version, flags, status), name, function) \
                : cudaErrorSharedObjectSymbolNotFound;                                 \
  }
TT_ENTRY_POINT(cudaGetDriverEntryPoint)
TT_ENTRY_POINT(cudaGetDriverEntryPoint_ptsz)
TT_ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion)
TT_ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz)

// NOLINTEND(readability-identifier-naming)
}  // extern "C"

}  // namespace traintrace
