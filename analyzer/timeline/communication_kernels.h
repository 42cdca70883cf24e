// Which kernels move data between GPUs, by their names.
#pragma once

#include <string>
#include <string_view>

namespace traintrace {

// NCCL and RCCL, MSCCL++, NVSHMEM, DeepEP, PyTorch's symmetric memory, the all-reduces of inference
// engines; and what set_communication_kernels added.
bool is_communication(std::string_view kernel);

// `--communication-kernels`: a regular expression (text/expression.h) that is searched in kernels'
// names.
// "@FILE": one in each line of that file, where lines that begin with # are comments.
// What is wrong with it; empty: nothing.  Before anything is read.
std::string set_communication_kernels(const std::string& expression);

}  // namespace traintrace
