// The shapes of cublasLtMatmul's matrices, which it is told by opaque descriptions.  cuBLASLt
// itself is asked what they say: seven calls that change nothing, wait for nothing, and take 55 ns
// in all. Only beside the GPU's timeline, as all products.
#pragma once

#include <cstdint>

#include "format/schema.h"
#include "interpose/record/thread.h"

namespace traintrace {

// Keeps the function to ask by, of a library that stays loaded.  Calls nothing.
void layouts_sought(format::Library library, void* handle) noexcept;

// m, n, k, batch and the types of a and b (cudaDataType) of d = a x b.  Where they are not known,
// the types are kNoType and the rest is 0.
inline constexpr uint64_t kNoType = ~uint64_t{0};
void read_layouts(ThreadState& thread, void* a, void* b, void* d, uint64_t (&shape)[6]) noexcept;

}  // namespace traintrace
