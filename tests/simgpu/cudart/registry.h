// The kernels and variables that programs compiled by nvcc register, and their way to the driver.
//
// A program registers a fat binary per translation unit, with the host addresses that stand for
// its kernels and variables.  It is loaded (cuLibraryLoadData) when one of them is first used, or
// with the context if CUDA_MODULE_LOADING=EAGER.
#pragma once
#include <cuda.h>

#include <atomic>
#include <string>

#include "cudart/status.h"

namespace simgpu::cudart {

struct FatBinary;

// A registered kernel, or a handle that the runtime gave out for one.  Never freed.
struct Kernel {
  const void* host = nullptr;
  std::string name;
  FatBinary* binary = nullptr;  // null for a handle
  std::atomic<CUkernel> handle = nullptr;
};

// A registered variable.  Never freed.
struct Variable {
  const void* host = nullptr;
  std::string name;
  size_t bytes = 0;
  FatBinary* binary = nullptr;
  void** managed = nullptr;  // the program's own pointer to a managed variable
};

FatBinary* register_binary(const void* image);
void register_kernel(FatBinary* binary, const void* host, const char* name);
void register_variable(FatBinary* binary, const Variable& variable);
// All registrations of this binary are in; with eager loading it is loaded at the next call.
void end_registration(FatBinary* binary);
// Forgets the binary and all that was registered with it.
void unregister_binary(FatBinary* binary);

// What launches need: the driver's handle for a host address, loading its module if need be.
// cudaErrorInvalidDeviceFunction if nothing is registered there.
Status find_kernel(const void* host, CUkernel& kernel);
// The same as function of the current context.
Status find_function(const void* host, CUfunction& function);
// The driver's handle is accepted wherever a host address is.
void adopt_handle(CUkernel kernel);
void adopt_handle(CUfunction function);
// The host address of a kernel handle; the handle itself if it was never registered.
void* host_of(CUkernel kernel);

// Device address and size of a variable in the current context; cudaErrorInvalidSymbol if nothing
// is registered there.
Status find_variable(const void* host, CUdeviceptr& address, size_t& bytes);

// Loads a binary now and sets the program's pointers to its managed variables.
Status load_binary(FatBinary* binary);

// With CUDA_MODULE_LOADING=EAGER: loads what is registered.  An error shows at first use.
void load_modules_eagerly();

}  // namespace simgpu::cudart
