// run: devices=1
// A vector on the device that grows without moving: addresses are reserved ahead, memory is created
// and mapped behind what is there.  When the addresses behind are taken, its memory is mapped anew
// elsewhere, still without a copy.
#include <cuda.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "common/check_driver.h"

namespace {

class GrowingVector {
 public:
  explicit GrowingVector(CUdevice device) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties_.location.id = device;
    access_.location = properties_.location;
    access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CU_CHECK(cuMemGetAllocationGranularity(&granularity_, &properties_,
                                           CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(granularity_ && granularity_ % 4096 == 0, "the granularity is %zu", granularity_);
  }
  GrowingVector(const GrowingVector&) = delete;
  GrowingVector& operator=(const GrowingVector&) = delete;
  ~GrowingVector() {
    if (mapped_) {
      CU_CHECK(cuMemUnmap(base_, mapped_));
    }
    for (const auto& [address, bytes] : ranges_) {
      CU_CHECK(cuMemAddressFree(address, bytes));
    }
    for (const auto& [handle, bytes] : chunks_) {
      CU_CHECK(cuMemRelease(handle));
    }
  }

  CUdeviceptr base() const { return base_; }
  size_t granularity() const { return granularity_; }
  size_t capacity_bytes() const { return mapped_; }

  void reserve(size_t bytes) {
    if (bytes > reserved_) {
      extend_range(round_up(bytes));
    }
  }

  void grow(size_t bytes) {
    if (bytes <= mapped_) {
      return;
    }
    const size_t more = round_up(bytes) - mapped_;
    reserve(mapped_ + more);
    CUmemGenericAllocationHandle chunk;
    CU_CHECK(cuMemCreate(&chunk, more, &properties_, 0));
    map(base_ + mapped_, chunk, more);
    chunks_.emplace_back(chunk, more);
    mapped_ += more;
  }

 private:
  size_t round_up(size_t bytes) const {
    return (bytes + granularity_ - 1) / granularity_ * granularity_;
  }

  void map(CUdeviceptr address, CUmemGenericAllocationHandle chunk, size_t bytes) {
    CU_CHECK(cuMemMap(address, bytes, 0, chunk, 0));
    CU_CHECK(cuMemSetAccess(address, bytes, &access_, 1));
  }

  void extend_range(size_t bytes) {
    CUdeviceptr address = 0;
    const size_t more = bytes - reserved_;
    // The hint need not be taken: then what was got is of no use.
    const CUresult result = cuMemAddressReserve(&address, more, 0, base_ + reserved_, 0);
    if (result == CUDA_SUCCESS && base_ && address == base_ + reserved_) {
      ranges_.emplace_back(address, more);
    } else {
      if (result == CUDA_SUCCESS) {
        CU_CHECK(cuMemAddressFree(address, more));
      }
      move_to_new_range(bytes);
    }
    reserved_ = bytes;
  }

  void move_to_new_range(size_t bytes) {
    CUdeviceptr address = 0;
    CU_CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    if (mapped_) {
      CU_CHECK(cuMemUnmap(base_, mapped_));
    }
    CUdeviceptr at = address;
    for (const auto& [chunk, chunk_bytes] : chunks_) {
      map(at, chunk, chunk_bytes);
      at += chunk_bytes;
    }
    for (const auto& [old, old_bytes] : ranges_) {
      CU_CHECK(cuMemAddressFree(old, old_bytes));
    }
    ranges_.assign(1, {address, bytes});
    base_ = address;
  }

  CUmemAllocationProp properties_{};
  CUmemAccessDesc access_{};
  size_t granularity_ = 0;
  CUdeviceptr base_ = 0;
  size_t reserved_ = 0;
  size_t mapped_ = 0;
  std::vector<std::pair<CUdeviceptr, size_t>> ranges_;
  std::vector<std::pair<CUmemGenericAllocationHandle, size_t>> chunks_;
};

size_t free_bytes() {
  size_t free = 0, total = 0;
  CU_CHECK(cuMemGetInfo(&free, &total));
  return free;
}

void fill(const GrowingVector& vector, size_t from_bytes, unsigned value) {
  CU_CHECK(cuMemsetD32(vector.base() + from_bytes, value,
                       (vector.capacity_bytes() - from_bytes) / sizeof value));
}

// Each generation filled what was new with its number.
void check_generations(const GrowingVector& vector, const std::vector<size_t>& ends) {
  std::vector<unsigned> values(vector.capacity_bytes() / sizeof(unsigned));
  CU_CHECK(cuMemcpyDtoH(values.data(), vector.base(), vector.capacity_bytes()));
  size_t generation = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    generation += i * sizeof(unsigned) == ends[generation];
    CHECK(values[i] == generation + 1, "value %zu is %u, not %zu", i, values[i], generation + 1);
  }
}

void grow_and_check(CUdevice device) {
  GrowingVector vector(device);
  const size_t step = vector.granularity();
  vector.reserve(4 * step);  // so many without ever moving
  std::vector<size_t> ends;
  CUdeviceptr first_base = 0;
  for (unsigned generation = 1; generation <= 5; ++generation) {
    const size_t before = vector.capacity_bytes();
    vector.grow(before + (generation == 5 ? 3 * step : 1));
    fill(vector, before, generation);
    ends.push_back(vector.capacity_bytes());
    check_generations(vector, ends);
    first_base = generation == 1 ? vector.base() : first_base;
    CHECK(generation > 4 || vector.base() == first_base, "it moved within what was reserved");
  }
  CHECK(vector.capacity_bytes() == 7 * step, "it has %zu bytes", vector.capacity_bytes());
  // Exactly what is mapped may be used.
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(vector.base() + vector.capacity_bytes(), 1, 1));
  printf("growing_vector: %zu bytes in steps of %zu\n", vector.capacity_bytes(), step);
}

}  // namespace

int main() {
  CU_CHECK(cuInit(0));
  CUdevice device = 0;
  CU_CHECK(cuDeviceGet(&device, 0));
  CUcontext context = nullptr;
  CU_CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CU_CHECK(cuCtxSetCurrent(context));
  int supported = 0;
  CU_CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                device));
  CHECK(supported, "the device cannot manage virtual memory");
  const size_t before = free_bytes();
  grow_and_check(device);
  CHECK(free_bytes() == before, "%zu bytes were lost", before - free_bytes());
  CU_CHECK(cuDevicePrimaryCtxRelease(device));
  return 0;
}
