#include "interpose/life/gpu_models.h"

// cuda.h renames functions by macros.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(bugprone-reserved-identifier)
#include <cuda.h>

#include "interpose/base/files.h"
#include "interpose/calls/open_call.h"
#include "interpose/calls/resolve.h"
#include "interpose/life/facts.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr int kMostDevices = 64;

struct Driver {
  decltype(&cuDeviceGetCount) get_count;
  decltype(&cuDeviceGet) get;
  decltype(&cuDeviceGetName) get_name;
  decltype(&cuDeviceGetAttribute) get_attribute;
};
constinit uint32_t g_asked = 0;

struct Model {
  char name[128];
  int major, minor;
};

constinit Driver g_driver = {};
constinit uint32_t g_found = 0;

template <class Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(real_lookup(library, name));
  return into != nullptr;
}

bool ask(const Driver& driver, int ordinal, Model& model) {
  CUdevice device = 0;
  return driver.get(&device, ordinal) == CUDA_SUCCESS &&
         driver.get_name(model.name, sizeof model.name, device) == CUDA_SUCCESS &&
         driver.get_attribute(&model.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ==
             CUDA_SUCCESS &&
         driver.get_attribute(&model.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) ==
             CUDA_SUCCESS;
}

void define(ThreadState& thread, const Driver& driver, int ordinal) {
  Model model = {};
  bool known = false;
  {
    const OwnCall own(thread);
    known = ask(driver, ordinal, model);
  }
  if (known) {
    ShortText key;
    ShortText value;
    key << "gpu-" << int64_t{ordinal};
    value << int64_t{model.major} << "." << int64_t{model.minor} << " " << model.name;
    write_fact(thread, key.c_str(), value.c_str());
  }
}

}  // namespace

void gpu_models_sought(format::Library library, void* handle) noexcept {
  static constinit uint32_t sought = 0;
  if (library == format::Library::Driver && exchange_if(sought, 0U, 1U) &&
      find(handle, "cuDeviceGetCount", g_driver.get_count) &&
      find(handle, "cuDeviceGet", g_driver.get) &&
      find(handle, "cuDeviceGetName", g_driver.get_name) &&
      find(handle, "cuDeviceGetAttribute", g_driver.get_attribute)) {
    publish(g_found, 1U);
  }
}

void define_gpu_models(ThreadState& thread) noexcept {
  if (load(g_found) == 0 || load(g_asked) != 0 || !exchange_if(g_asked, 0U, 1U)) {
    return;
  }
  const Driver& driver = g_driver;
  int count = 0;
  {
    const OwnCall own(thread);
    if (driver.get_count(&count) != CUDA_SUCCESS) {
      return;
    }
  }
  for (int ordinal = 0; ordinal < count && ordinal < kMostDevices; ++ordinal) {
    define(thread, driver, ordinal);
  }
}

void gpu_models_start() noexcept {
  publish(g_asked, 0U);
}

}  // namespace traintrace
