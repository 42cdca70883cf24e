#include <cuda.h>
#include <cudaProfiler.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "common/entry.h"
#include "cuda/old_names.h"
#include "cuda/state.h"

using namespace simgpu;

// The addresses that cuGetProcAddress hands out, without their signatures.
namespace symbols {
extern "C" {
#define SIMGPU_PROC(name, version, symbol) extern const char at_##symbol[] __asm__(#symbol);
#define SIMGPU_PROC_PER_THREAD SIMGPU_PROC
#include "cuda/proc_address.def"
}
}  // namespace symbols

namespace {

struct Version {
  int since;
  bool per_thread;
  const void* address;
};
using ProcTable = std::unordered_map<std::string, std::vector<Version>>;

struct ProcRow {
  const char* name;
  Version version;
};

// One array, not 635 statements: those took the compiler half a minute.
constexpr ProcRow kProcRows[] = {
#define SIMGPU_PROC(name, since, symbol) {#name, {since, false, symbols::at_##symbol}},
#define SIMGPU_PROC_PER_THREAD(name, since, symbol) {#name, {since, true, symbols::at_##symbol}},
#include "cuda/proc_address.def"
};

const ProcTable& proc_table() {
  static const ProcTable& table = *[] {
    auto* filled = new ProcTable;
    for (const ProcRow& row : kProcRows) {
      (*filled)[row.name].push_back(row.version);
    }
    return filled;
  }();
  return table;
}

const void* find_version(const std::vector<Version>& versions, int asked, bool per_thread) {
  const void* found = nullptr;
  for (const Version& version : versions) {  // ascending
    if (version.per_thread == per_thread && version.since <= asked) {
      found = version.address;
    }
  }
  return found;
}

CUresult look_up(const char* name, void** address, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (!name || !address || (flags & ~kKnown) || version > CUDA_VERSION) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *address = nullptr;
  CUdriverProcAddressQueryResult outcome = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (const auto row = proc_table().find(name); row != proc_table().end()) {
    const void* found = nullptr;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) {
      found = find_version(row->second, version, true);
    }
    if (!found) {
      found = find_version(row->second, version, false);
    }
    *address = const_cast<void*>(found);
    outcome = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  }
  if (status) {
    *status = outcome;
  }
  return CUDA_SUCCESS;
}

const char* error_text(CUresult error, bool name) {
  switch (error) {
#define SIMGPU_ERROR(code, text) \
  case code:                     \
    return name ? #code : text;
#include "cuda/errors.def"
  }
  return nullptr;
}

}  // namespace

CUresult cuInit(unsigned flags) {
  SIMGPU_ENTER(CUresult);
  return flags == 0 ? initialise() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int* version) {
  SIMGPU_ENTER(CUresult);
  if (!version) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  SIMGPU_ENTER(CUresult);
  if (!text) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *text = error_text(error, true);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  SIMGPU_ENTER(CUresult);
  if (!text) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *text = error_text(error, false);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  SIMGPU_ENTER(CUresult);
  return look_up(name, address, version, flags, status);
}

// The first form, with four arguments, said "not found" through its result.
CUresult simgpu_old_cuGetProcAddress(const char* name, void** address, int version,
                                     cuuint64_t flags) {
  SIMGPU_ENTER(CUresult);
  const CUresult result = look_up(name, address, version, flags, nullptr);
  return result == CUDA_SUCCESS && !*address ? CUDA_ERROR_NOT_FOUND : result;
}

// The tables behind this call are private to the vendor.
// SIMGPU_DIFFERS(cuGetExportTable): no table exists; every id is answered with "not found"
CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  SIMGPU_ENTER(CUresult);
  if (!table || !id) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuProfilerStart() {
  SIMGPU_CONTEXT_ENTER();
  return CUDA_SUCCESS;
}

CUresult cuProfilerStop() {
  SIMGPU_CONTEXT_ENTER();
  return CUDA_SUCCESS;
}
