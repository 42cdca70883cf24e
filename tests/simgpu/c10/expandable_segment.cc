#include "expandable_segment.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace c10sim {
namespace {

// As c10/cuda/driver_api.cpp up to 2.6: from the library that the runtime has loaded.
struct Driver {
#define C10SIM_DRIVER(use)                                                                        \
  use(cuMemAddressReserve) use(cuMemAddressFree) use(cuMemCreate) use(cuMemRelease) use(cuMemMap) \
      use(cuMemUnmap) use(cuMemSetAccess)
#define C10SIM_MEMBER(function) decltype(&::function) function;
  C10SIM_DRIVER(C10SIM_MEMBER)
};

const Driver& driver() {
  static const Driver& functions = *[] {
    auto* const driver = new Driver{};
    void* const handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
#define C10SIM_FIND(function) \
  driver->function = reinterpret_cast<decltype(driver->function)>(dlsym(handle, #function));
    C10SIM_DRIVER(C10SIM_FIND)
    return driver;
  }();
  return functions;
}

void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) {
    std::fprintf(stderr, "%s: error %d\n", what, static_cast<int>(result));
    std::abort();
  }
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

}  // namespace

ExpandableSegment::ExpandableSegment(int device, size_t granule, size_t total_bytes)
    : device_(device), granule_(granule) {
  handles_.resize((total_bytes + total_bytes / 8 + granule - 1) / granule);
  must(driver().cuMemAddressReserve(&base_, bytes(), 0, 0, 0), "cuMemAddressReserve");
}

ExpandableSegment::~ExpandableSegment() {
  unmap(base(), bytes());
  must(driver().cuMemAddressFree(base_, bytes()), "cuMemAddressFree");
}

bool ExpandableSegment::map(char* address, size_t bytes) {
  const size_t first = index_of(address);
  const size_t count = bytes / granule_;
  const CUmemAllocationProp properties = properties_of(device_);
  for (size_t i = first; i < first + count; ++i) {
    const CUresult result = driver().cuMemCreate(&handles_[i], granule_, &properties, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      handles_[i] = 0;
      while (i-- > first) {
        must(driver().cuMemRelease(handles_[i]), "cuMemRelease");
        handles_[i] = 0;
      }
      return false;
    }
    must(result, "cuMemCreate");
  }
  for (size_t i = first; i < first + count; ++i) {
    must(driver().cuMemMap(base_ + i * granule_, granule_, 0, handles_[i], 0), "cuMemMap");
  }
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  must(driver().cuMemSetAccess(base_ + first * granule_, bytes, &access, 1), "cuMemSetAccess");
  return true;
}

void ExpandableSegment::unmap(char* address, size_t bytes) {
  const size_t first = index_of(address);
  for (size_t i = first; i < first + bytes / granule_; ++i) {
    if (handles_[i] != 0) {
      must(driver().cuMemUnmap(base_ + i * granule_, granule_), "cuMemUnmap");
      must(driver().cuMemRelease(handles_[i]), "cuMemRelease");
      handles_[i] = 0;
    }
  }
}

}  // namespace c10sim
