// What a reader of tables and pictures calls the owner of memory.
#pragma once

#include <string>

#include "analyzer/memory/memory_life.h"

namespace traintrace {

// "NCCL dp" (its communicator that was being made then), "cuBLAS", "PyTorch optimizer", "the job";
// "unknown".
std::string owner_text(const ProcessTrace& trace, const LiveBlock& block);

}  // namespace traintrace
