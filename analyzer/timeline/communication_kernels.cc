#include "analyzer/timeline/communication_kernels.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <regex>
#include <vector>

namespace traintrace {
namespace {

// As demangled; "void " and namespaces may come before.
constexpr std::array<std::string_view, 26> kParts = {
    "mscclpp",                      // MSCCL++
    "mscclKernel",                  //
    "nvshmem",                      // NVSHMEM
    "deep_ep::",                    // DeepEP: dispatch and combine
    "internode::dispatch",          //
    "internode::combine",           //
    "intranode::dispatch",          //
    "intranode::combine",           //
    "internode_ll::dispatch",       //
    "internode_ll::combine",        //
    "symm_mem",                     // PyTorch's symmetric memory
    "symmetric_memory",             //
    "multimem_all_reduce",          //
    "multimem_one_shot",            //
    "multimem_all_gather",          //
    "one_shot_all_reduce",          //
    "two_shot_all_reduce",          //
    "one_shot_reduce_scatter",      //
    "cross_device_reduce",          // vLLM, SGLang
    "quickreduce",                  //
    "allreduce_prototype_twoshot",  //
    "allreduce_fusion_kernel",      // TensorRT-LLM, FlashInfer
    "oneShotAllReduceKernel",       //
    "twoShotAllReduceKernel",       //
    "moe_comm::",                   //
    "MoeAlltoAll",                  //
};

std::vector<std::regex>& added() {
  static auto& expressions = *new std::vector<std::regex>;
  return expressions;
}

bool is_added(std::string_view kernel) {
  return std::any_of(added().begin(), added().end(), [&](const std::regex& expression) {
    return std::regex_search(kernel.begin(), kernel.end(), expression);
  });
}

bool add(const std::string& expression) {
  try {
    added().emplace_back(expression, std::regex::ECMAScript | std::regex::optimize);
    return true;
  } catch (const std::regex_error&) {
    return false;
  }
}

}  // namespace

bool is_communication(std::string_view kernel) {
  return kernel.starts_with("nccl") || kernel.starts_with("rccl") ||
         std::any_of(kParts.begin(), kParts.end(),
                     [&](std::string_view part) { return kernel.find(part) != kernel.npos; }) ||
         is_added(kernel);
}

std::string set_communication_kernels(const std::string& expression) {
  constexpr const char* kExpected = "expected a regular expression";
  added().clear();
  if (!expression.starts_with('@')) {
    return add(expression) ? "" : kExpected;
  }
  const std::string path = expression.substr(1);
  std::ifstream file(path);
  std::string line;
  size_t number = 0;
  for (; std::getline(file, line);) {
    ++number;
    if (!line.empty() && line.front() != '#' && !add(line)) {
      return path + ", line " + std::to_string(number) + ": " + kExpected;
    }
  }
  return number != 0 ? "" : path + ": expected a file with a regular expression in each line";
}

}  // namespace traintrace
