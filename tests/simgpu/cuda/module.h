// Loaded images.  A CUmodule and a CUlibrary are the same thing here; a library may be loaded
// without a context and gets its global variables in each context that asks for them.
#pragma once
#include <cuda.h>

#include "cuda/image.h"
#include "cuda/launch.h"

namespace simgpu {

struct LoadedGlobal {
  CUdeviceptr address = 0;
  size_t bytes = 0;
};

struct Module {
  std::atomic<bool> alive{true};
  bool is_library = false;
  Context* context = nullptr;  // of a CUmodule
  Image image;
  std::mutex mutex;  // guards what follows
  std::map<std::string, Kernel*> kernels;
  std::map<std::pair<Context*, std::string>, LoadedGlobal> globals;
};

inline Module* module_of(CUmodule module) {
  return reinterpret_cast<Module*>(module);
}
inline Module* module_of(CUlibrary library) {
  return reinterpret_cast<Module*>(library);
}

// `data` as in cuModuleLoadData.  Never freed (see Kernel).
Module* load_image(const void* data, bool is_library);
// `bytes` past the end of the file's content are zero.  CUDA_ERROR_FILE_NOT_FOUND, _INVALID_IMAGE.
CUresult load_file(const char* path, bool is_library, Module*& out);
void unload(Module& module);
CUresult find_kernel(Module& module, const char* name, Kernel*& out);
CUresult find_global(Module& module, const char* name, LoadedGlobal& out);
std::vector<Kernel*> all_kernels(Module& module);  // empty for an opaque image

}  // namespace simgpu
