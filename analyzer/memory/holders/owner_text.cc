#include "analyzer/memory/holders/owner_text.h"

#include <algorithm>

#include "analyzer/memory/holders/nccl_memory.h"

namespace traintrace {
namespace {

struct TorchPart {
  std::string_view file;  // a frame's file contains it
  const char* text;
};
constexpr TorchPart kTorchParts[] = {
    {"torch/optim/", "PyTorch optimizer"},
    {"torch/nn/parallel/", "PyTorch parallel"},
    {"torch/distributed/", "PyTorch distributed"},
};

std::string torch_text(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  if (found != trace.stacks.end()) {
    for (const PythonFrameText& frame : found->second.python) {
      for (const TorchPart& part : kTorchParts) {
        if (frame.file.find(part.file) != frame.file.npos) {
          return part.text;
        }
      }
    }
  }
  return "PyTorch";
}

// "cublas" of ".../libcublas.so.12"
std::string library_text(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  if (found == trace.stacks.end()) {
    return "CUDA library";
  }
  for (const uint64_t address : found->second.native) {
    const auto module = std::find_if(
        trace.modules.begin(), trace.modules.end(),
        [&](const ModuleText& each) { return address >= each.begin && address < each.end; });
    if (module == trace.modules.end()) {
      continue;
    }
    const std::string name = module->path.substr(module->path.rfind('/') + 1);
    if (name.starts_with("libcu") && !name.starts_with("libcuda")) {
      return name.substr(3, name.find_first_of(".-_") - 3);
    }
  }
  return "CUDA library";
}

}  // namespace

std::string owner_text(const ProcessTrace& trace, const LiveBlock& block) {
  switch (block.owner) {
    case Owner::kTorch:
      return torch_text(trace, block.stack);
    case Owner::kNccl:
      return nccl_name(trace, NcclCalls(trace).at(block.time, block.device, 0).communicator);
    case Owner::kCudaLibrary:
      return library_text(trace, block.stack);
    case Owner::kJob:
      return "the job";
    case Owner::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace traintrace
