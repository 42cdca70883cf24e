#include "interpose/gpu/cupti_load.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "interpose/base/files.h"
#include "interpose/stacks/objects.h"

namespace traintrace {
namespace {

struct Version {
  const char* runtime;
  const char* cupti;
};
constexpr Version kVersions[] = {{"libcudart.so.13", "libcupti.so.13"},
                                 {"libcudart.so.12", "libcupti.so.12"}};

// From the folder of the runtime: beside it (packages for CUDA 13), as NVIDIA's packages for Python
// lay CUDA 12 out, and as its installer does.
constexpr const char* kPlaces[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};

constexpr int kHow = RTLD_NOW | RTLD_LOCAL;

void* load_near(const char* runtime, const char* cupti) {
  const char* const slash = strrchr(runtime, '/');
  if (slash == nullptr) {
    return nullptr;
  }
  for (const char* const place : kPlaces) {
    ShortText path;
    path.append(runtime, static_cast<size_t>(slash - runtime) + 1) << place << cupti;
    void* const found = path.whole() ? dlopen(path.c_str(), kHow) : nullptr;
    if (found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

void* load_for(const Version& version, void* runtime) {
  // Before what the loader finds, which may go with another runtime and driver.
  void* const found = load_near(static_cast<const link_map*>(runtime)->l_name, version.cupti);
  return found != nullptr ? found : dlopen(version.cupti, kHow);
}

}  // namespace

void* load_cupti() noexcept {
  for (const Version& version : kVersions) {
    if (void* const loaded = handle_if_loaded(version.cupti)) {
      return loaded;
    }
  }
  for (const Version& version : kVersions) {
    if (void* const runtime = handle_if_loaded(version.runtime)) {
      void* const found = load_for(version, runtime);
      dlclose(runtime);
      return found;
    }
  }
  // The runtime is linked into the job, or it uses the driver alone.
  void* const newest = dlopen(kVersions[0].cupti, kHow);
  return newest != nullptr ? newest : dlopen(kVersions[1].cupti, kHow);
}

}  // namespace traintrace
