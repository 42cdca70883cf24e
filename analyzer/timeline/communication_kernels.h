// Which kernels move data between GPUs, by their names.
#pragma once

#include <string>
#include <string_view>

namespace traintrace {

// NCCL and RCCL, MSCCL++, NVSHMEM, DeepEP, PyTorch's symmetric memory, the all-reduces of inference
// engines; and what set_communication_kernels added.
bool is_communication(std::string_view kernel);

// `--communication-kernels`: a regular expression (ECMAScript) that is searched in kernels' names.
// False: it is none.  Before anything is read.
bool set_communication_kernels(const std::string& expression);

}  // namespace traintrace
