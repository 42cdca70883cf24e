// Libraries of kernels that a program loads itself.
#include "cudart/api.h"
#include "cudart/convert.h"
#include "cudart/registry.h"

namespace simgpu::cudart {

// Both sides number the options alike.
static_assert(static_cast<int>(cudaJitMaxThreadsPerBlock) ==
              static_cast<int>(CU_JIT_MAX_THREADS_PER_BLOCK));
static_assert(static_cast<int>(cudaLibraryBinaryIsPreserved) ==
              static_cast<int>(CU_LIBRARY_BINARY_IS_PRESERVED));

SIMGPU_RT(context, cudaLibraryLoadData,
          (cudaLibrary_t * library, const void* code, cudaJitOption* jit_options, void** jit_values,
           unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count),
          (library, code, jit_options, jit_values, jit_count, options, values, count)) {
  return g_driver.cuLibraryLoadData(library, code, reinterpret_cast<CUjit_option*>(jit_options),
                                    jit_values, jit_count,
                                    reinterpret_cast<CUlibraryOption*>(options), values, count);
}

SIMGPU_RT(context, cudaLibraryLoadFromFile,
          (cudaLibrary_t * library, const char* path, cudaJitOption* jit_options, void** jit_values,
           unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count),
          (library, path, jit_options, jit_values, jit_count, options, values, count)) {
  return g_driver.cuLibraryLoadFromFile(library, path, reinterpret_cast<CUjit_option*>(jit_options),
                                        jit_values, jit_count,
                                        reinterpret_cast<CUlibraryOption*>(options), values, count);
}

SIMGPU_RT(context, cudaLibraryUnload, (cudaLibrary_t library), (library)) {
  return g_driver.cuLibraryUnload(library);
}

SIMGPU_RT(context, cudaLibraryGetKernel,
          (cudaKernel_t * kernel, cudaLibrary_t library, const char* name),
          (kernel, library, name)) {
  SIMGPU_TRY(g_driver.cuLibraryGetKernel(kernel, library, name));
  adopt_handle(*kernel);
  return cudaSuccess;
}

SIMGPU_RT(context, cudaLibraryGetKernelCount, (unsigned* count, cudaLibrary_t library),
          (count, library)) {
  return g_driver.cuLibraryGetKernelCount(count, library);
}

SIMGPU_RT(context, cudaLibraryEnumerateKernels,
          (cudaKernel_t * kernels, unsigned count, cudaLibrary_t library),
          (kernels, count, library)) {
  unsigned most = 0;
  SIMGPU_TRY(g_driver.cuLibraryGetKernelCount(&most, library));
  SIMGPU_TRY(g_driver.cuLibraryEnumerateKernels(kernels, count, library));
  for (unsigned i = 0; i < count && i < most; ++i) {
    adopt_handle(kernels[i]);
  }
  return cudaSuccess;
}

SIMGPU_RT(context, cudaLibraryGetGlobal,
          (void** memory, size_t* bytes, cudaLibrary_t library, const char* name),
          (memory, bytes, library, name)) {
  return g_driver.cuLibraryGetGlobal(address_of(memory), bytes, library, name);
}

SIMGPU_RT(context, cudaLibraryGetManaged,
          (void** memory, size_t* bytes, cudaLibrary_t library, const char* name),
          (memory, bytes, library, name)) {
  return g_driver.cuLibraryGetManaged(address_of(memory), bytes, library, name);
}

SIMGPU_RT(context, cudaLibraryGetUnifiedFunction,
          (void** function, cudaLibrary_t library, const char* name), (function, library, name)) {
  return g_driver.cuLibraryGetUnifiedFunction(function, library, name);
}

}  // namespace simgpu::cudart
