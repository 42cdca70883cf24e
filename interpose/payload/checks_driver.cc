#include "interpose/payload/checks_driver.h"

// cuda.h renames functions by macros, calls.def wants their names.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(bugprone-reserved-identifier)
#include <cuda.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "interpose/base/files.h"
#include "interpose/calls/open_call.h"
#include "interpose/gpu/own_gpu.h"
#include "interpose/life/facts.h"
#include "interpose/life/told.h"
#include "interpose/payload/checks.h"
#include "interpose/record/growth.h"

extern "C" const char tt_check_kernel[];  // check_image.S; ends with NUL

namespace traintrace {
namespace {

using format::PayloadCell;

constexpr size_t kCellsBytes = kCheckCells * sizeof(PayloadCell);
constexpr unsigned kLanes = 256;  // check_kernel.cu's

struct Driver {
  decltype(&cuModuleLoadData) module_load_data;
  decltype(&cuModuleGetFunction) module_get_function;
  decltype(&cuFuncGetAttribute) func_get_attribute;
  decltype(&cuLaunchKernel) launch_kernel;
  decltype(&cuMemcpyDtoHAsync_v2) memcpy_to_host;
  decltype(&cuStreamWriteValue64_v2) stream_write_value;
};
constinit Driver g_driver = {};
constinit CUfunction g_kernel = nullptr;
constinit PayloadCell* g_cells = nullptr;
constinit uint64_t g_device_cells = 0;

bool find_driver() {
  return find_own_gpu("cuModuleLoadData", g_driver.module_load_data) &&
         find_own_gpu("cuModuleGetFunction", g_driver.module_get_function) &&
         find_own_gpu("cuFuncGetAttribute", g_driver.func_get_attribute) &&
         find_own_gpu("cuLaunchKernel", g_driver.launch_kernel) &&
         find_own_gpu("cuMemcpyDtoHAsync_v2", g_driver.memcpy_to_host) &&
         find_own_gpu("cuStreamWriteValue64_v2", g_driver.stream_write_value);
}

bool may_work(ThreadState& thread, uint64_t stream) {
  const StreamState state = own_gpu_stream(thread, stream, g_cells);
  if (state == StreamState::kContextEnded) {
    checks_turn_off(thread, "the context of the checks has ended");
  }
  return state == StreamState::kFree;
}

bool launch(ThreadState& thread, uint64_t stream, const check::Launch& launch) {
  check::Launch argument = launch;
  void* arguments[] = {&argument};
  const OwnCall own(thread);
  return g_driver.launch_kernel(g_kernel, launch.parts * launch.blocks, 1, 1, kLanes, 1, 1, 0,
                                reinterpret_cast<CUstream>(stream), arguments,
                                nullptr) == CUDA_SUCCESS;
}

bool copy(ThreadState& thread, uint64_t stream, uint64_t from, uint64_t bytes, PayloadCell* cell,
          uint64_t stamp) {
  PayloadCell* const into = g_cells + (cell - reinterpret_cast<PayloadCell*>(g_device_cells));
  const auto word = reinterpret_cast<CUdeviceptr>(&(cell + 1)->stamp);
  CUresult copied = CUDA_SUCCESS;
  CUresult stamped = CUDA_SUCCESS;
  {
    const OwnCall own(thread);
    copied = g_driver.memcpy_to_host(into, from, bytes, reinterpret_cast<CUstream>(stream));
    if (copied == CUDA_SUCCESS) {
      stamped = g_driver.stream_write_value(reinterpret_cast<CUstream>(stream), word, stamp,
                                            CU_STREAM_WRITE_VALUE_DEFAULT);
    }
  }
  if (stamped != CUDA_SUCCESS) {  // nothing will say when the cell may be used again
    checks_turn_off(thread, "the driver refused to write a number behind a copy");
  }
  return copied == CUDA_SUCCESS;
}

// Wholly: with lazy loading the rest would come with the first launch, and wait for what runs then.
// Asking for an attribute loads a kernel (CUDA programming guide, lazy loading).
bool load_kernel(ThreadState& thread) {
  CUmodule module = nullptr;
  int registers = 0;
  const OwnCall own(thread);
  return g_driver.module_load_data(&module, tt_check_kernel) == CUDA_SUCCESS &&
         g_driver.module_get_function(&g_kernel, module, "traintrace_check") == CUDA_SUCCESS &&
         g_driver.func_get_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, g_kernel) ==
             CUDA_SUCCESS;
}

// A child that is forked while the GPU writes must not share the pages.
PayloadCell* map_cells() {
  void* const memory =
      mmap(nullptr, kCellsBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  madvise(memory, kCellsBytes, MADV_DONTFORK);
  return static_cast<PayloadCell*>(memory);
}

// Null: checks are on.
const char* turn_on(ThreadState& thread) {
  const char* const blocking = getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking && equal(blocking, "1")) {
    return "CUDA_LAUNCH_BLOCKING is 1";
  }
  if (!find_driver()) {
    return "the driver lacks a function that it needs";
  }
  if (g_payload >= Payload::kCheck && !load_kernel(thread)) {
    return "the driver refused the kernel";
  }
  g_cells = map_cells();
  if (g_cells == nullptr) {
    return "there was no memory for its cells";
  }
  g_device_cells = own_gpu_pin(thread, g_cells, kCellsBytes);
  if (g_device_cells == 0) {
    munmap(g_cells, kCellsBytes);
    return "the driver refused to pin memory";
  }
  const bool on = checks_turn_on({may_work, launch, copy}, g_cells,
                                 reinterpret_cast<PayloadCell*>(g_device_cells), own_gpu_device());
  wake_own_thread();  // from now on it has more to do
  return on ? nullptr : "there was no memory for its cells";
}

}  // namespace

void checks_decide(ThreadState& thread, const char* against) noexcept {
  against = against ? against : turn_on(thread);
  ShortText value;
  if (against) {
    value << "none: " << against;
  } else {
    value << (g_payload >= Payload::kCheck ? "check" : "small");
  }
  write_fact(thread, "payload-checks", value.c_str());
  if (against) {
    tell_refused(format::Setting::Payload, "acts as batches", against);
  }
}

}  // namespace traintrace
