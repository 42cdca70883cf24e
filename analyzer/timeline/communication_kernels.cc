#include "analyzer/timeline/communication_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "analyzer/reader/files/input_file.h"
#include "analyzer/text/expression.h"

namespace traintrace {
namespace {

// As demangled; "void " and namespaces may come before.
constexpr std::array<std::string_view, 27> kParts = {
    "mscclpp",                      // MSCCL++
    "mscclKernel",                  //
    "oneccl_",                      // oneCCL, on Intel's GPUs
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

std::vector<Expression>& added() {
  static auto& expressions = *new std::vector<Expression>;
  return expressions;
}

bool is_added(std::string_view kernel) {
  return std::any_of(added().begin(), added().end(),
                     [&](const Expression& expression) { return expression.is_in(kernel); });
}

// What is wrong with it; empty: nothing.
std::string add_expression(std::string_view text) {
  std::string wrong;
  Expression expression(text, wrong);
  if (!wrong.empty()) {
    return "expected a regular expression: " + wrong;
  }
  added().push_back(std::move(expression));
  return "";
}

}  // namespace

bool is_communication(std::string_view kernel) {
  return kernel.starts_with("nccl") || kernel.starts_with("rccl") ||
         std::any_of(kParts.begin(), kParts.end(),
                     [&](std::string_view part) { return kernel.find(part) != kernel.npos; }) ||
         is_added(kernel);
}

std::string set_communication_kernels(const std::string& expression) {
  constexpr uint64_t kMostBytes = 1 << 20;
  added().clear();
  if (!expression.starts_with('@')) {
    return add_expression(expression);
  }
  const std::string path = expression.substr(1);
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return path + ": " + file.error().message;
  }
  if (file->bytes() > kMostBytes) {
    return path + ": expected at most 1 MiB";
  }
  std::string lines(file->bytes(), '\0');
  lines.resize(file->read(0, std::as_writable_bytes(std::span(lines))));
  size_t number = 0;
  for (size_t at = 0; at < lines.size(); at = std::min(lines.find('\n', at), lines.size()) + 1) {
    const std::string_view line = std::string_view(lines).substr(at, lines.find('\n', at) - at);
    ++number;
    const std::string wrong = line.empty() || line.front() == '#' ? "" : add_expression(line);
    if (!wrong.empty()) {
      return fmt::format("{}, line {}: {}", path, number, wrong);
    }
  }
  return number != 0 ? "" : path + ": expected a file with a regular expression in each line";
}

}  // namespace traintrace
