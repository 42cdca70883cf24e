#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "common/entry.h"
#include "cuda/device.h"
#include "cuda/module.h"

using namespace simgpu;

namespace {

bool usable(const Module* module) {
  return module && module->alive.load();
}
bool usable(const Kernel* kernel) {
  return kernel && kernel->alive.load();
}

template <class Handle>
CUresult get_kernel(Handle* out, Module* module, const char* name) {
  if (!out || !name) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(module)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  Kernel* kernel = nullptr;
  SIMGPU_TRY(find_kernel(*module, name, kernel));
  *out = reinterpret_cast<Handle>(kernel);
  return CUDA_SUCCESS;
}

CUresult get_global(CUdeviceptr* address, size_t* bytes, Module* module, const char* name) {
  if (!name || (!address && !bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(module)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  LoadedGlobal global;
  SIMGPU_TRY(find_global(*module, name, global));
  if (address) {
    *address = global.address;
  }
  if (bytes) {
    *bytes = global.bytes;
  }
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult enumerate(Handle* out, unsigned count, Module* module) {
  if (!out || !usable(module)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::vector<Kernel*> all = all_kernels(*module);
  for (unsigned i = 0; i < count && i < all.size(); ++i) {
    out[i] = reinterpret_cast<Handle>(all[i]);
  }
  return CUDA_SUCCESS;
}

CUresult parameter_info(Kernel* kernel, size_t index, size_t* offset, size_t* bytes) {
  if (!usable(kernel)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!offset || index >= kernel->parameters.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *offset = kernel->parameters[index].offset;
  if (bytes) {
    *bytes = kernel->parameters[index].bytes;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  SIMGPU_CONTEXT_ENTER();
  if (!out || !image) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = reinterpret_cast<CUmodule>(load_image(image, false));
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(out, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return cuModuleLoadData(out, image);
}

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  SIMGPU_CONTEXT_ENTER();
  if (!out || !path) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Module* module = nullptr;
  SIMGPU_TRY(load_file(path, false, module));
  *out = reinterpret_cast<CUmodule>(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  SIMGPU_CONTEXT_ENTER();
  if (!usable(module_of(module))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  unload(*module_of(module));
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  SIMGPU_DRIVER_ENTER();
  if (!mode) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const char* text = getenv("CUDA_MODULE_LOADING");
  *mode = text && strcmp(text, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  SIMGPU_CONTEXT_ENTER();
  return get_kernel(out, module_of(module), name);
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  SIMGPU_CONTEXT_ENTER();
  if (!count || !usable(module_of(module))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *count = static_cast<unsigned>(all_kernels(*module_of(module)).size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned count, CUmodule module) {
  SIMGPU_CONTEXT_ENTER();
  return enumerate(out, count, module_of(module));
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module,
                              const char* name) {
  SIMGPU_CONTEXT_ENTER();
  return get_global(address, bytes, module_of(module), name);
}

CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  SIMGPU_DRIVER_ENTER();
  if (!out || !code) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = reinterpret_cast<CUlibrary>(load_image(code, true));
  return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned,
                               CUlibraryOption*, void**, unsigned) {
  SIMGPU_DRIVER_ENTER();
  if (!out || !path) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Module* module = nullptr;
  SIMGPU_TRY(load_file(path, true, module));
  *out = reinterpret_cast<CUlibrary>(module);
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
  SIMGPU_DRIVER_ENTER();
  if (!usable(module_of(library))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  unload(*module_of(library));
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  SIMGPU_DRIVER_ENTER();
  return get_kernel(out, module_of(library), name);
}

CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  SIMGPU_DRIVER_ENTER();
  if (!count || !usable(module_of(library))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *count = static_cast<unsigned>(all_kernels(*module_of(library)).size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned count, CUlibrary library) {
  SIMGPU_DRIVER_ENTER();
  return enumerate(out, count, module_of(library));
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) {
  SIMGPU_CONTEXT_ENTER();
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(module_of(library))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *out = reinterpret_cast<CUmodule>(module_of(library));
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                            const char* name) {
  SIMGPU_CONTEXT_ENTER();
  return get_global(address, bytes, module_of(library), name);
}

// A managed variable is device memory here, which the host can touch anyway.
CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                             const char* name) {
  SIMGPU_CONTEXT_ENTER();
  return get_global(address, bytes, module_of(library), name);
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  SIMGPU_CONTEXT_ENTER();
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(kernel_of(kernel))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
  SIMGPU_DRIVER_ENTER();
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(kernel_of(kernel))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *out = reinterpret_cast<CUlibrary>(kernel_of(kernel)->module);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  SIMGPU_DRIVER_ENTER();
  if (!name) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(kernel_of(kernel))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *name = kernel_of(kernel)->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!value || !valid_device(device)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(kernel_of(kernel))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return kernel_attribute(*kernel_of(kernel), attribute, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device) {
  SIMGPU_DRIVER_ENTER();
  if (!valid_device(device)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(kernel_of(kernel))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return set_kernel_attribute(*kernel_of(kernel), attribute, value);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) {
  SIMGPU_DRIVER_ENTER();
  return usable(kernel_of(kernel)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  SIMGPU_DRIVER_ENTER();
  return parameter_info(kernel_of(kernel), index, offset, bytes);
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  SIMGPU_DRIVER_ENTER();
  return parameter_info(kernel_of(function), index, offset, bytes);
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  return cuKernelGetName(name, reinterpret_cast<CUkernel>(function));
}

CUresult cuFuncGetModule(CUmodule* out, CUfunction function) {
  SIMGPU_DRIVER_ENTER();
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(kernel_of(function))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *out = reinterpret_cast<CUmodule>(kernel_of(function)->module);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  SIMGPU_DRIVER_ENTER();
  if (!value) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!usable(kernel_of(function))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return kernel_attribute(*kernel_of(function), attribute, value);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  SIMGPU_CONTEXT_ENTER();
  if (!usable(kernel_of(function))) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return set_kernel_attribute(*kernel_of(function), attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  SIMGPU_CONTEXT_ENTER();
  return usable(kernel_of(function)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  SIMGPU_DRIVER_ENTER();
  if (!state || !usable(kernel_of(function))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  SIMGPU_DRIVER_ENTER();
  return usable(kernel_of(function)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
