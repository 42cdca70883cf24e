#include "analyzer/memory/holders/owner_text.h"

#include <string_view>

#include "analyzer/memory/holders/nccl_memory.h"
#include "analyzer/memory/library_names.h"

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

}  // namespace

std::string owner_text(const ProcessTrace& trace, const LiveBlock& block) {
  switch (block.owner) {
    case Owner::kTorch:
      return torch_text(trace, block.stack);
    case Owner::kNccl:
      return nccl_name(trace, NcclCalls(trace).at(block.time, block.device, 0).communicator);
    case Owner::kCudaLibrary:
      return library_name(trace, block.owner, block.stack);
    case Owner::kJob:
      return "the job";
    case Owner::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace traintrace
