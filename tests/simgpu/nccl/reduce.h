// Arithmetic on vectors of every NCCL data type, on the CPU.
#pragma once
#include <cstddef>

#include "nccl/plan.h"

namespace simgpu::nccl {

// Each step rounds to the type, floats below 32 bits are computed in float.

// into[i] = what `own` contributes: scaled by the scalar for PreMulSum, else copied.
void contribute(const Reduction& reduction, ncclDataType_t type, void* into, const void* own,
                size_t count);
// into[i] = into[i] op other[i]
void combine(const Reduction& reduction, ncclDataType_t type, void* into, const void* other,
             size_t count);
// into[i] divided by the number of ranks, for the average of integers.
void conclude(const Reduction& reduction, ncclDataType_t type, void* into, size_t count);

// Writes `value` as an element of the type.
void store_scalar(ncclDataType_t type, double value, unsigned char* into);

}  // namespace simgpu::nccl
