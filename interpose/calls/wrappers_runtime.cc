// Every function under its own name.  NOLINTNEXTLINE(bugprone-reserved-identifier)
#define __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>

#include "interpose/calls/specials_cuda.h"
#include "interpose/calls/unloads.h"
#include "interpose/calls/wrap.h"

#define TT_ROW_Runtime TT_TAKE
#define TT_ROW_Driver TT_LEAVE
#define TT_ROW_Nccl TT_LEAVE
#define TT_ROW_Cublas TT_LEAVE
#define TT_ROW_CublasLt TT_LEAVE

// Types of functions that the headers do not have, or whose parameters depend on the version of
// CUDA that the program was compiled with: 64-bit words pass whatever it hands over, unchanged.
using Word = uint64_t;
cudaError_t words_1(Word);
cudaError_t words_3(Word, Word, Word);
cudaError_t words_4(Word, Word, Word, Word);
cudaError_t words_5(Word, Word, Word, Word, Word);
cudaError_t words_9(Word, Word, Word, Word, Word, Word, Word, Word, Word);
cudaError_t graph_instantiate(cudaGraphExec_t*, cudaGraph_t, Word, Word, Word);
cudaError_t launch_kernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);

namespace traintrace {

template <>
inline constexpr cudaError_t kMissingOriginal<cudaError_t> = cudaErrorSharedObjectSymbolNotFound;

template <>
inline constexpr HostMemory kHostMemory<format::CallId::cudaMallocManaged> = HostMemory::kManaged;
template <>
inline constexpr HostMemory kHostMemory<format::CallId::cudaHostAlloc> = HostMemory::kFlagged;
template <>
inline constexpr HostMemory kHostMemory<format::CallId::cudaHostRegister> = HostMemory::kFlagged;

template <>
struct Special<format::CallId::cudaSetDevice> : NothingBefore {
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, int device) {
    if (result == 0) {
      chose_device(*frame.thread, device_or_none(device));
    }
  }
};
template <>
struct Special<format::CallId::cudaLibraryGetKernel> : NamesFunction<cudaKernel_t> {};

struct ChannelBytes {
  static uint64_t bytes(cudaArray_t*, const cudaChannelFormatDesc* format, auto...) {
    constexpr int kFirstOfBlocks = cudaChannelFormatKindUnsignedBlockCompressed1;
    const bool known = format && format->f < kFirstOfBlocks;
    return known ? static_cast<uint64_t>(format->x + format->y + format->z + format->w) / 8 : 0;
  }
};
template <>
struct ArrayElement<format::CallId::cudaMallocArray> : ChannelBytes {};
template <>
struct ArrayElement<format::CallId::cudaMalloc3DArray> : ChannelBytes {};
template <>
struct ArrayElement<format::CallId::cudaMallocMipmappedArray> {
  static uint64_t bytes(cudaMipmappedArray_t*, const cudaChannelFormatDesc* format, auto...) {
    return ChannelBytes::bytes(nullptr, format);
  }
};

// What the entries jump to, by call id.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const void* const tt_calls_Runtime[format::kCallCount] = {
#include "format/calls.def"
};

namespace {

using RegisterFunction = void (*)(void**, const char*, char*, const char*, int, void*, void*, void*,
                                  void*, int*);

}  // namespace

// Compilers emit a call for each kernel of a module, before main or while it is loaded.
// NOLINTNEXTLINE(*-identifier-naming,*-reserved-identifier)
extern "C" void tt_hook___cudaRegisterFunction(void** module, const char* host_function,
                                               char* device_function, const char* name,
                                               int thread_limit, void* tid, void* bid, void* block,
                                               void* grid, int* warp_size) {
  // Of a library that has just been loaded, maybe to where another one was.
  static constinit void** last_module = nullptr;
  if (__atomic_exchange_n(&last_module, module, __ATOMIC_RELAXED) != module ||
      !is_only_copy(format::Library::Runtime)) {
    look_for_unloads();
  }
  kernel_registered(reinterpret_cast<uint64_t>(host_function), name);
  const auto real = reinterpret_cast<RegisterFunction>(
      original(format::Library::Runtime, symbol_of(Export::__cudaRegisterFunction),
               __builtin_return_address(0)));
  if (real) {
    real(module, host_function, device_function, name, thread_limit, tid, bid, block, grid,
         warp_size);
  }
}

}  // namespace traintrace
