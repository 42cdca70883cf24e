// What a pointer points to.
#include "cudart/api.h"
#include "cudart/convert.h"

namespace simgpu::cudart {
namespace {

struct PointerFacts {
  CUmemorytype type = static_cast<CUmemorytype>(0);
  unsigned managed = 0;
  int device = cudaInvalidDeviceId;
  CUdeviceptr device_address = 0;
  void* host_address = nullptr;
};

// Never fails for an address that the driver does not know: the facts then stay as they are.
Status ask_driver(const void* pointer, PointerFacts& facts) {
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
      CU_POINTER_ATTRIBUTE_HOST_POINTER,
  };
  void* values[] = {&facts.type, &facts.managed, &facts.device, &facts.device_address,
                    &facts.host_address};
  return g_driver.cuPointerGetAttributes(std::size(attributes), attributes, values,
                                         address(pointer));
}

cudaMemoryType memory_type(const PointerFacts& facts) {
  if (facts.managed) {
    return cudaMemoryTypeManaged;
  }
  switch (facts.type) {
    case CU_MEMORYTYPE_HOST:
      return cudaMemoryTypeHost;
    case CU_MEMORYTYPE_DEVICE:
      return cudaMemoryTypeDevice;
    default:
      return cudaMemoryTypeUnregistered;
  }
}

}  // namespace

SIMGPU_RT(context, cudaPointerGetAttributes, (cudaPointerAttributes * declared, const void* memory),
          (declared, memory)) {
  if (!declared) {
    return cudaErrorInvalidValue;
  }
  auto* const attributes = reinterpret_cast<PointerAttributes*>(declared);
  PointerFacts facts;
  SIMGPU_TRY(ask_driver(memory, facts));
  *attributes = {};
  attributes->type = memory_type(facts);
  if (attributes->type == cudaMemoryTypeUnregistered) {
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = const_cast<void*>(memory);
    return cudaSuccess;
  }
  attributes->device = facts.device;
  attributes->devicePointer = pointer(facts.device_address);
  attributes->hostPointer = facts.host_address;
  return cudaSuccess;
}

}  // namespace simgpu::cudart
