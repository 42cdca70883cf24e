#include "cuda/module.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace simgpu {

Module* load_image(const void* data, bool is_library) {
  static Slots<Module>& modules = *new Slots<Module>;  // none is given back
  Module* module = modules.take();
  module->is_library = is_library;
  module->context = is_library ? nullptr : current_context();
  module->image = read_image(data);
  return module;
}

CUresult load_file(const char* path, bool is_library, Module*& out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.empty()) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  bytes.resize(bytes.size() + 64, '\0');
  out = load_image(bytes.data(), is_library);
  return CUDA_SUCCESS;
}

void unload(Module& module) {
  module.alive = false;
  const std::lock_guard lock(module.mutex);
  for (const auto& [name, kernel] : module.kernels) {
    kernel->alive = false;
  }
  for (const auto& [where, global] : module.globals) {
    cuMemFree_v2(global.address);
  }
  module.globals.clear();
}

CUresult find_kernel(Module& module, const char* name, Kernel*& out) {
  const auto known = module.image.kernels.find(name);
  if (module.image.complete && known == module.image.kernels.end()) {
    return CUDA_ERROR_NOT_FOUND;
  }
  const std::lock_guard lock(module.mutex);
  Kernel*& kernel = module.kernels[name];
  if (!kernel) {
    kernel = new_kernel(name, &module);
    kernel->parameters_known = known != module.image.kernels.end();
    if (kernel->parameters_known) {
      kernel->parameters = known->second;
    }
  }
  out = kernel;
  return CUDA_SUCCESS;
}

CUresult find_global(Module& module, const char* name, LoadedGlobal& out) {
  const auto known = module.image.globals.find(name);
  if (known == module.image.globals.end()) {
    return CUDA_ERROR_NOT_FOUND;
  }
  Context* context = module.is_library ? current_context() : module.context;
  const std::lock_guard lock(module.mutex);
  LoadedGlobal& global = module.globals[{context, name}];
  if (!global.address) {
    CUdeviceptr address = 0;
    if (const CUresult result = cuMemAlloc_v2(&address, known->second.bytes)) {
      module.globals.erase({context, name});
      return result;
    }
    // Device memory is host memory here: the initial value needs no copy on a stream.
    const std::vector<uint8_t>& initial = known->second.initial;
    std::copy(initial.begin(), initial.end(), reinterpret_cast<uint8_t*>(address));
    global = {address, known->second.bytes};
  }
  out = global;
  return CUDA_SUCCESS;
}

std::vector<Kernel*> all_kernels(Module& module) {
  std::vector<Kernel*> out;
  if (module.image.complete) {
    for (const auto& [name, parameters] : module.image.kernels) {
      Kernel* kernel = nullptr;
      find_kernel(module, name.c_str(), kernel);
      out.push_back(kernel);
    }
  }
  return out;
}

}  // namespace simgpu
