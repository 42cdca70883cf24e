#include "analyzer/memory/blocks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"

namespace traintrace {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

struct ModuleOwner {
  std::string_view prefix;
  Owner owner;
};
constexpr ModuleOwner kModuleOwners[] = {
    {"libnccl", Owner::kNccl},
    {"libtorch", Owner::kTorch},
    {"libc10", Owner::kTorch},
    {"libcaffe2", Owner::kTorch},
    {"libcublas", Owner::kCudaLibrary},
    {"libcudnn", Owner::kCudaLibrary},
    {"libcufft", Owner::kCudaLibrary},
    {"libcusolver", Owner::kCudaLibrary},
    {"libcusparse", Owner::kCudaLibrary},
    {"libcurand", Owner::kCudaLibrary},
    {"libnvshmem", Owner::kCudaLibrary},
};
// Between the allocator and who wanted the memory.
constexpr std::string_view kSkipped[] = {"libtraintrace", "libcuda", "libc.so", "libstdc++"};

const ModuleText* module_at(const ProcessTrace& trace, uint64_t address) {
  const auto found = std::find_if(
      trace.modules.begin(), trace.modules.end(),
      [&](const ModuleText& module) { return address >= module.begin && address < module.end; });
  return found == trace.modules.end() ? nullptr : &*found;
}

std::optional<Owner> owner_of_module(std::string_view name) {
  for (const ModuleOwner& row : kModuleOwners) {
    if (name.starts_with(row.prefix)) {
      return row.owner;
    }
  }
  const bool skipped = std::any_of(std::begin(kSkipped), std::end(kSkipped),
                                   [&](std::string_view part) { return name.starts_with(part); });
  return skipped ? std::nullopt : std::optional(Owner::kJob);
}

}  // namespace

const char* name_of(MemoryKind kind) {
  constexpr const char* kNames[] = {"device memory",          "managed memory", "pinned memory",
                                    "registered host memory", "arrays",         "imported memory",
                                    "PyTorch's tensors"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<MemoryKind> kind_of_call(std::string_view name) {
  if (has(name, "AddressReserve") || has(name, "cuMemMap") || has(name, "AllocationHandle")) {
    return std::nullopt;
  }
  return has(name, "Register")  ? MemoryKind::kRegistered
         : has(name, "Host")    ? MemoryKind::kPinned
         : has(name, "Managed") ? MemoryKind::kManaged
         : has(name, "Array")   ? MemoryKind::kArray
         : has(name, "Ipc") || has(name, "Import") || has(name, "ExternalMemory")
             ? MemoryKind::kImported
             : MemoryKind::kDevice;
}

namespace {

// The name of the innermost one that wanted memory for itself; empty: it is not known.
std::string_view module_that_asked(const ProcessTrace& trace, uint32_t id) {
  const auto stack = trace.stacks.find(id);
  if (stack == trace.stacks.end()) {
    return {};
  }
  for (const uint64_t address : stack->second.native) {
    const ModuleText* module = module_at(trace, address);
    if (module != nullptr && owner_of_module(base_name(module->path))) {
      return base_name(module->path);
    }
  }
  return {};
}

}  // namespace

Owner owner_of(const ProcessTrace& trace, uint32_t id) {
  const std::string_view module = module_that_asked(trace, id);
  const auto owner = module.empty() ? std::nullopt : owner_of_module(module);
  if (owner) {
    return *owner;
  }
  return trace.stacks.contains(id) && user_place(trace, {0}, id) ? Owner::kJob : Owner::kUnknown;
}

bool has_no_line(const ProcessTrace& trace, uint32_t stack) {
  const auto found = trace.stacks.find(stack);
  return found != trace.stacks.end() && found->second.python.empty() &&
         !found->second.native.empty() && !user_place(trace, {0}, stack);
}

bool is_caching_allocator(const ProcessTrace& trace, uint32_t stack) {
  return module_that_asked(trace, stack).starts_with("libc10_cuda");
}

namespace {

using Groups = std::map<std::tuple<uint32_t, MemoryKind, int>, BlockGroup>;

template <class Block>
BlockGroup& add_to(Groups& groups, const Block& block, MemoryKind kind) {
  const int device = block.device == format::kNoDevice ? -1 : block.device;
  BlockGroup& group = groups[{block.stack, kind, device}];
  group.stack = block.stack;
  group.kind = kind;
  group.device = device;
  group.bytes = sum_of(group.bytes, block.bytes);
  group.blocks.emplace_back(block.time, block.bytes);
  return group;
}

std::vector<BlockGroup> sorted(Groups& groups) {
  std::vector<BlockGroup> sorted;
  for (auto& [key, group] : groups) {
    std::sort(group.blocks.begin(), group.blocks.end());
    sorted.push_back(std::move(group));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const BlockGroup& a, const BlockGroup& b) { return a.bytes > b.bytes; });
  return sorted;
}

}  // namespace

std::vector<BlockGroup> live_groups(const ProcessTrace& trace) {
  Groups groups;
  for (const AllocationText& allocation : trace.allocations) {
    const auto kind = kind_of_call(call_name(trace, allocation.call));
    if (!kind) {
      continue;
    }
    add_to(groups, allocation, *kind).call = allocation.call;
  }
  // Without a cache of its own PyTorch takes each tensor from CUDA.
  const bool uncached = trace.tensor_devices.empty();
  for (auto& [key, group] : groups) {
    const Owner owner = owner_of(trace, group.stack);
    const bool of_job = owner == Owner::kTorch && uncached && user_place(trace, {0}, group.stack);
    group.owner = of_job ? Owner::kJob : owner;
  }
  return sorted(groups);
}

namespace {

// Whoever asked PyTorch for a tensor owns it, if it was the job at all.
std::vector<BlockGroup> owned(const ProcessTrace& trace, Groups& groups) {
  for (auto& [key, group] : groups) {
    group.owner = user_place(trace, {0}, group.stack) ? Owner::kJob : Owner::kTorch;
  }
  return sorted(groups);
}

Groups live_tensors(const ProcessTrace& trace) {
  Groups groups;
  for (const TensorBlockText& block : trace.tensor_blocks) {
    add_to(groups, block, MemoryKind::kTensor);
  }
  return groups;
}

}  // namespace

std::vector<BlockGroup> tensor_groups(const ProcessTrace& trace) {
  Groups groups = live_tensors(trace);
  return owned(trace, groups);
}

std::vector<BlockGroup> tensor_groups_before_end(const ProcessTrace& trace) {
  Groups groups = live_tensors(trace);
  for (const FreedBlockText& block : trace.freed_blocks) {
    ++add_to(groups, block, MemoryKind::kTensor).let_go;
  }
  return owned(trace, groups);
}

}  // namespace traintrace
