#include "analyzer/memory/allocator/workspaces.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "analyzer/memory/field_value.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

// aten/src/ATen/cuda/CublasHandlePool.cpp: the handle of a thread is given its workspace when it is
// asked for, on each stream; that of cuBLASLt has a function of its own since PyTorch 2.7.
constexpr std::string_view kFunctions[] = {"at::cuda::getCurrentCUDABlasHandle",
                                           "at::cuda::getCUDABlasLtWorkspace"};
constexpr size_t kMostFrames = 16;  // from the allocator to that function are six
constexpr size_t kMostHolding = 64;

// Without CUBLAS_WORKSPACE_CONFIG, on GPUs before Hopper and since (parseChosenWorkspaceSize).
constexpr uint64_t kSizes[] = {uint64_t{8320} << 10, uint64_t{32} << 20};

const ModuleText* module_around(const ProcessTrace& trace, uint64_t address) {
  const auto module = std::find_if(
      trace.modules.begin(), trace.modules.end(),
      [&](const ModuleText& each) { return address >= each.begin && address < each.end; });
  return module == trace.modules.end() ? nullptr : &*module;
}

std::string_view file_name_of(const ModuleText& module) {
  const std::string_view path = module.path;
  return path.substr(path.rfind('/') + 1);
}

bool is_of_pytorch(const ModuleText& module) {
  return file_name_of(module).starts_with("libtorch");
}

bool is_size_of_workspace(uint64_t bytes) {
  return std::find(std::begin(kSizes), std::end(kSizes), bytes) != std::end(kSizes);
}

// The innermost library but the allocator's own.
bool comes_from_libtorch_cuda(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  if (found == trace.stacks.end()) {
    return false;
  }
  for (const uint64_t address : found->second.native) {
    const ModuleText* const module = module_around(trace, address);
    if (module != nullptr && !file_name_of(*module).starts_with("libc10_cuda") &&
        !file_name_of(*module).starts_with("libtraintrace")) {
      return file_name_of(*module).starts_with("libtorch_cuda");
    }
  }
  return false;
}

bool any_is_named(const ProcessTrace& trace, const std::vector<uint64_t>& frames) {
  return std::any_of(frames.begin(), frames.end(), [&](uint64_t address) {
    const auto name = trace.code.find(address);
    return name != trace.code.end() && !name->second.function.empty();
  });
}

void add_most(const std::map<uint32_t, uint64_t>& bytes, std::vector<uint32_t>& stacks) {
  std::vector<std::pair<uint64_t, uint32_t>> sorted;
  sorted.reserve(bytes.size());
  for (const auto& [stack, held] : bytes) {
    sorted.emplace_back(held, stack);
  }
  std::sort(sorted.rbegin(), sorted.rend());
  for (size_t i = 0; i < std::min(sorted.size(), kMostHolding); ++i) {
    stacks.push_back(sorted[i].second);
  }
}

}  // namespace

bool is_cublas_workspace(const ProcessTrace& trace, uint32_t stack, uint64_t bytes) {
  const std::vector<uint64_t> frames = frames_in_pytorch(trace, stack);
  if (!any_is_named(trace, frames)) {
    return is_size_of_workspace(bytes) && comes_from_libtorch_cuda(trace, stack);
  }
  return std::any_of(frames.begin(), frames.end(), [&](uint64_t address) {
    const auto name = trace.code.find(address);
    return name != trace.code.end() &&
           std::any_of(std::begin(kFunctions), std::end(kFunctions),
                       [&](std::string_view function) {
                         return name->second.function.starts_with(function);
                       });
  });
}

std::vector<uint64_t> frames_in_pytorch(const ProcessTrace& trace, uint32_t stack) {
  std::vector<uint64_t> frames;
  const auto found = trace.stacks.find(stack);
  const size_t most =
      found == trace.stacks.end() ? 0 : std::min(found->second.native.size(), kMostFrames);
  for (size_t i = 0; i < most; ++i) {
    const uint64_t address = found->second.native[i];
    const ModuleText* const module = module_around(trace, address);
    if (module != nullptr && is_of_pytorch(*module)) {
      frames.push_back(address);
    }
  }
  return frames;
}

std::vector<uint32_t> stacks_that_hold_most(const ProcessTrace& trace) {
  std::vector<uint32_t> stacks;
  std::map<uint32_t, uint64_t> live;
  for (const TensorBlockText& block : trace.tensor_blocks) {
    live[block.stack] += block.bytes;
  }
  add_most(live, stacks);
  // Of what is not live any more it is not known which stack held most at a time: by its largest
  // block.
  std::map<uint32_t, uint64_t> largest;
  each_event(trace, [&](const CallRecord& event, FieldValues values) {
    const CallSchema* const schema = schema_of(trace, event.call);
    const auto change = schema != nullptr && schema->kind == "tensor-block"
                            ? field_value(values, *schema, "change")
                            : std::nullopt;
    if (change && static_cast<int64_t>(*change) > 0) {
      largest[event.stack] = std::max(largest[event.stack], *change);
    }
  });
  add_most(largest, stacks);
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    std::map<uint32_t, uint64_t> held;
    for (const HeldBlockText& block : failure.held) {
      held[block.stack] += block.bytes;
    }
    add_most(held, stacks);
  }
  return stacks;
}

}  // namespace traintrace
