#include "cudart/registry.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cudart/context.h"
#include "cudart/convert.h"
#include "cudart/driver.h"
#include "cudart/host_table.h"

namespace simgpu::cudart {

struct FatBinary {
  const void* image = nullptr;
  std::recursive_mutex mutex;  // held while the driver loads it
  std::atomic<CUlibrary> library = nullptr;
  bool complete = false;
  bool managed_ready = false;
  std::vector<Kernel*> kernels;
  std::vector<Variable*> variables;
  // Memory for variables whose size only the runtime knows; see find_variable().
  std::map<std::pair<CUcontext, const Variable*>, CUdeviceptr> stand_ins;
};

namespace {

struct Registry {
  std::mutex mutex;  // for writing the tables and for all below
  HostTable<Kernel> kernels;
  HostTable<Variable> variables;
  std::deque<Kernel> all_kernels;
  std::deque<Variable> all_variables;
  std::vector<std::unique_ptr<FatBinary>> binaries;
};

// Never destroyed: libraries unregister their binaries while the process exits.
Registry& registry() {
  static Registry& value = *new Registry;
  return value;
}

bool loads_eagerly() {
  static const bool value = [] {
    const char* mode = getenv("CUDA_MODULE_LOADING");
    return mode && strcmp(mode, "EAGER") == 0;
  }();
  return value;
}

Status set_managed_pointers(FatBinary& binary) {
  if (binary.managed_ready) {
    return cudaSuccess;
  }
  for (const Variable* variable : binary.variables) {
    if (variable->managed) {
      CUdeviceptr address = 0;
      size_t bytes = 0;
      const CUresult result = g_driver.cuLibraryGetManaged(&address, &bytes, binary.library.load(),
                                                           variable->name.c_str());
      if (result == CUDA_ERROR_NOT_FOUND) {
        // As in find_variable().
        SIMGPU_TRY(g_driver.cuMemAllocManaged(&address, variable->bytes, CU_MEM_ATTACH_GLOBAL));
        memset(pointer(address), 0, variable->bytes);
      } else {
        SIMGPU_TRY(result);
      }
      *variable->managed = pointer(address);
    }
  }
  binary.managed_ready = true;
  return cudaSuccess;
}

// Memory of the current context for a variable that the driver cannot find, because the image is
// compressed and simgpu does not decompress it.
//
// SIMGPU_DIFFERS(cudaGetSymbolAddress, cudaMemcpyToSymbol*, cudaMemcpyFromSymbol*): variables of
// a compressed image start as zeros, whatever the program initialises them with.
Status stand_in(FatBinary& binary, const Variable& variable, CUdeviceptr& address) {
  CUcontext context = nullptr;
  SIMGPU_TRY(g_driver.cuCtxGetCurrent(&context));
  const std::lock_guard lock(binary.mutex);
  CUdeviceptr& memory = binary.stand_ins[{context, &variable}];
  if (memory == 0) {
    SIMGPU_TRY(g_driver.cuMemAlloc(&memory, variable.bytes));
    SIMGPU_TRY(g_driver.legacy.cuMemsetD8(memory, 0, variable.bytes));
  }
  address = memory;
  return cudaSuccess;
}

Kernel* add_kernel(const void* host, std::string name, FatBinary* binary, CUkernel handle) {
  Kernel& kernel = registry().all_kernels.emplace_back();
  kernel.host = host;
  kernel.name = std::move(name);
  kernel.binary = binary;
  kernel.handle.store(handle, std::memory_order_relaxed);
  registry().kernels.insert(&kernel);
  return &kernel;
}

Status load_kernel(Kernel& kernel) {
  SIMGPU_TRY(load_binary(kernel.binary));
  CUkernel handle = nullptr;
  const CUresult result =
      g_driver.cuLibraryGetKernel(&handle, kernel.binary->library.load(), kernel.name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    return cudaErrorInvalidDeviceFunction;
  }
  SIMGPU_TRY(result);
  kernel.handle.store(handle, std::memory_order_release);
  return cudaSuccess;
}

}  // namespace

FatBinary* register_binary(const void* image) {
  const std::lock_guard lock(registry().mutex);
  auto binary = std::make_unique<FatBinary>();
  binary->image = image;
  return registry().binaries.emplace_back(std::move(binary)).get();
}

void register_kernel(FatBinary* binary, const void* host, const char* name) {
  const std::lock_guard lock(registry().mutex);
  binary->kernels.push_back(add_kernel(host, name, binary, nullptr));
}

void register_variable(FatBinary* binary, const Variable& variable) {
  const std::lock_guard lock(registry().mutex);
  Variable& added = registry().all_variables.emplace_back(variable);
  added.binary = binary;
  registry().variables.insert(&added);
  binary->variables.push_back(&added);
}

void end_registration(FatBinary* binary) {
  {
    const std::lock_guard lock(registry().mutex);
    binary->complete = true;
  }
  if (loads_eagerly()) {
    g_generation.fetch_add(1, std::memory_order_acq_rel);
  }
}

void unregister_binary(FatBinary* binary) {
  const std::lock_guard lock(registry().mutex);
  binary->complete = false;
  for (Kernel* kernel : binary->kernels) {
    if (registry().kernels.find(kernel->host) == kernel) {
      registry().kernels.erase(kernel->host);
    }
  }
  for (Variable* variable : binary->variables) {
    if (registry().variables.find(variable->host) == variable) {
      registry().variables.erase(variable->host);
    }
  }
  // The library stays loaded: its kernels may still be queued, and while the process exits the
  // driver may be gone already.
}

Status load_binary(FatBinary* binary) {
  const std::lock_guard lock(binary->mutex);
  if (!binary->library.load(std::memory_order_relaxed)) {
    CUlibrary library = nullptr;
    SIMGPU_TRY(g_driver.cuLibraryLoadData(&library, binary->image, nullptr, nullptr, 0, nullptr,
                                          nullptr, 0));
    binary->library.store(library, std::memory_order_release);
  }
  return set_managed_pointers(*binary);
}

Status find_kernel(const void* host, CUkernel& kernel) {
  Kernel* found = registry().kernels.find(host);
  if (!found) {
    return cudaErrorInvalidDeviceFunction;
  }
  kernel = found->handle.load(std::memory_order_acquire);
  if (__builtin_expect(kernel == nullptr, 0)) {
    SIMGPU_TRY(load_kernel(*found));
    kernel = found->handle.load(std::memory_order_acquire);
  }
  return cudaSuccess;
}

Status find_function(const void* host, CUfunction& function) {
  CUkernel kernel = nullptr;
  SIMGPU_TRY(find_kernel(host, kernel));
  return g_driver.cuKernelGetFunction(&function, kernel);
}

void adopt_handle(CUkernel kernel) {
  const std::lock_guard lock(registry().mutex);
  if (!registry().kernels.find(kernel)) {
    add_kernel(kernel, {}, nullptr, kernel);
  }
}

void adopt_handle(CUfunction function) {
  // The driver takes either kind of handle for a launch.
  adopt_handle(reinterpret_cast<CUkernel>(function));
}

void* host_of(CUkernel kernel) {
  const std::lock_guard lock(registry().mutex);
  for (const Kernel& known : registry().all_kernels) {
    if (known.binary && known.handle.load(std::memory_order_relaxed) == kernel) {
      return const_cast<void*>(known.host);
    }
  }
  return kernel;
}

Status find_variable(const void* host, CUdeviceptr& address, size_t& bytes) {
  const Variable* variable = registry().variables.find(host);
  if (!variable) {
    return cudaErrorInvalidSymbol;
  }
  FatBinary& binary = *variable->binary;
  SIMGPU_TRY(load_binary(&binary));
  bytes = variable->bytes;
  if (variable->managed) {
    address = cudart::address(*variable->managed);
    return cudaSuccess;
  }
  size_t found_bytes = 0;
  const CUresult result = g_driver.cuLibraryGetGlobal(&address, &found_bytes, binary.library.load(),
                                                      variable->name.c_str());
  return result == CUDA_ERROR_NOT_FOUND ? stand_in(binary, *variable, address) : Status(result);
}

void load_modules_eagerly() {
  if (!loads_eagerly()) {
    return;
  }
  std::vector<FatBinary*> binaries;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& binary : registry().binaries) {
      if (binary->complete && !binary->library.load(std::memory_order_relaxed)) {
        binaries.push_back(binary.get());
      }
    }
  }
  for (FatBinary* binary : binaries) {
    (void)load_binary(binary);
  }
}

}  // namespace simgpu::cudart
