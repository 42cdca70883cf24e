#include "analyzer/memory/library_names.h"

#include <algorithm>
#include <iterator>

namespace traintrace {
namespace {

struct LibraryName {
  std::string_view begins;  // the file's name
  std::string_view name;
};
constexpr LibraryName kLibraryNames[] = {
    {"libcublas", "cuBLAS"},     {"libcudnn", "cuDNN"},       {"libcufft", "cuFFT"},
    {"libcurand", "cuRAND"},     {"libcusolver", "cuSOLVER"}, {"libcusparse", "cuSPARSE"},
    {"libcutensor", "cuTENSOR"}, {"libnvshmem", "NVSHMEM"},
};

}  // namespace

std::string library_name(const ProcessTrace& trace, Owner owner, uint32_t stack) {
  if (owner == Owner::kNccl) {
    return "NCCL";
  }
  const auto found = trace.stacks.find(stack);
  if (found != trace.stacks.end()) {
    for (const uint64_t address : found->second.native) {
      const auto module = std::find_if(
          trace.modules.begin(), trace.modules.end(),
          [&](const ModuleText& each) { return address >= each.begin && address < each.end; });
      if (module == trace.modules.end()) {
        continue;
      }
      const std::string file = module->path.substr(module->path.rfind('/') + 1);
      const auto* const known =
          std::find_if(std::begin(kLibraryNames), std::end(kLibraryNames),
                       [&](const LibraryName& each) { return file.starts_with(each.begins); });
      if (known != std::end(kLibraryNames)) {
        return std::string(known->name);
      }
    }
  }
  return "a CUDA library";
}

}  // namespace traintrace
