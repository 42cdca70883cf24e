// What the tracer's own kernel does (TRAINTRACE_PAYLOAD=check): the source that its PTX is compiled
// from.
#include <simgpu.h>

#include "interpose/payload/check_kernel.h"

extern "C" simgpuRegisterKernelFunction simgpuRegisterKernel;

namespace simgpu {
namespace {

namespace check = traintrace::check;

int run_check(void* const* arguments, const simgpuLaunch* launch, void*) {
  const auto& what = *static_cast<const check::Launch*>(arguments[0]);
  for (uint32_t block = 0; block < launch->grid[0]; ++block) {
    traintrace::format::PayloadCell& cell = what.cells[block];
    check::fill(cell, what, block);
    __atomic_store_n(&cell.stamp, what.stamp, __ATOMIC_RELEASE);
  }
  return 0;
}

[[gnu::constructor]] void add_check() {
  constexpr size_t kBytes[] = {sizeof(check::Launch)};
  simgpuRegisterKernel("traintrace_check", run_check, nullptr, 1, kBytes);
}

}  // namespace
}  // namespace simgpu
