// Which library of the process a block of memory is of.
#pragma once

#include <string>

#include "analyzer/memory/blocks.h"

namespace traintrace {

// "NCCL", "cuBLAS": by the innermost of NVIDIA's libraries on the stack; "a CUDA library" where it
// has another name, or none is on it.
std::string library_name(const ProcessTrace& trace, Owner owner, uint32_t stack);

}  // namespace traintrace
