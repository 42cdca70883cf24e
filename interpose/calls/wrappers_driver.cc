// Every function under its own name.  NOLINTNEXTLINE(bugprone-reserved-identifier)
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "interpose/calls/specials_cuda.h"
#include "interpose/calls/wrap.h"

#define TT_ROW_Runtime TT_LEAVE
#define TT_ROW_Driver TT_TAKE
#define TT_ROW_Nccl TT_LEAVE
#define TT_ROW_Cublas TT_LEAVE
#define TT_ROW_CublasLt TT_LEAVE

// Types of functions that the headers of CUDA 13.0 do not have; see wrappers_runtime.cc.
using Word = uint64_t;
CUresult words_3(Word, Word, Word);
CUresult words_5(Word, Word, Word, Word, Word);

namespace traintrace {

using format::CallId;

template <>
inline constexpr CUresult kMissingOriginal<CUresult> = CUDA_ERROR_NOT_FOUND;

template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyDtoH> = CopyWay::kToHost;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyDtoH_v2> = CopyWay::kToHost;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyDtoH_v2_ptds> = CopyWay::kToHost;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyDtoHAsync> = CopyWay::kToHost;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyDtoHAsync_v2> = CopyWay::kToHost;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyDtoHAsync_v2_ptsz> = CopyWay::kToHost;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyHtoD> = CopyWay::kToDevice;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyHtoD_v2> = CopyWay::kToDevice;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyHtoD_v2_ptds> = CopyWay::kToDevice;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyHtoDAsync> = CopyWay::kToDevice;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyHtoDAsync_v2> = CopyWay::kToDevice;
template <>
inline constexpr CopyWay kCopyWay<CallId::cuMemcpyHtoDAsync_v2_ptsz> = CopyWay::kToDevice;

template <>
inline constexpr HostMemory kHostMemory<CallId::cuMemAllocManaged> = HostMemory::kManaged;
template <>
inline constexpr HostMemory kHostMemory<CallId::cuMemHostAlloc> = HostMemory::kFlagged;
template <>
inline constexpr HostMemory kHostMemory<CallId::cuMemHostRegister> = HostMemory::kFlagged;
template <>
inline constexpr HostMemory kHostMemory<CallId::cuMemHostRegister_v2> = HostMemory::kFlagged;

template <>
struct Special<CallId::cuCtxCreate> : CreatesContext<CUcontext> {
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, CUcontext* context, unsigned,
                    CUdevice device) {
    if (result == 0) {
      remember(frame, context, device);
    }
  }
};
template <>
struct Special<CallId::cuCtxCreate_v2> : Special<CallId::cuCtxCreate> {};
template <>
struct Special<CallId::cuCtxCreate_v3> : CreatesContext<CUcontext> {
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, CUcontext* context,
                    CUexecAffinityParam*, int, unsigned, CUdevice device) {
    if (result == 0) {
      remember(frame, context, device);
    }
  }
};
template <>
struct Special<CallId::cuCtxCreate_v4> : CreatesContext<CUcontext> {
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, CUcontext* context,
                    CUctxCreateParams*, unsigned, CUdevice device) {
    if (result == 0) {
      remember(frame, context, device);
    }
  }
};

template <>
struct Special<CallId::cuDevicePrimaryCtxRetain> : NothingBefore {
  static void after(OpenFrame&, Scratch&, int result, uint64_t, CUcontext* context,
                    CUdevice device) {
    if (result == 0 && context) {
      remember_context(reinterpret_cast<uint64_t>(*context), device);
    }
  }
};

template <>
struct Special<CallId::cuCtxSetCurrent> : NothingBefore {
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, CUcontext context) {
    if (result == 0) {
      chose_device(*frame.thread, device_of_context(reinterpret_cast<uint64_t>(context)));
    }
  }
};
template <>
struct Special<CallId::cuCtxPushCurrent> : NothingBefore {
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, CUcontext context) {
    if (result == 0) {
      push_device(*frame.thread, device_of_context(reinterpret_cast<uint64_t>(context)));
    }
  }
};
template <>
struct Special<CallId::cuCtxPushCurrent_v2> : Special<CallId::cuCtxPushCurrent> {};
template <>
struct Special<CallId::cuCtxPopCurrent> : NothingBefore {
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, CUcontext*) {
    if (result == 0) {
      pop_device(*frame.thread);
    }
  }
};
template <>
struct Special<CallId::cuCtxPopCurrent_v2> : Special<CallId::cuCtxPopCurrent> {};

template <>
struct Special<CallId::cuModuleGetFunction> : NamesFunction<CUfunction> {};
template <>
struct Special<CallId::cuLibraryGetKernel> : NamesFunction<CUkernel> {};

inline uint64_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}
struct DescribedElement {
  static uint64_t bytes(auto*, const auto* description, auto...) {
    return description ? channel_bytes(description->Format) * description->NumChannels : 0;
  }
};
template <>
struct ArrayElement<CallId::cuArrayCreate> : DescribedElement {};
template <>
struct ArrayElement<CallId::cuArrayCreate_v2> : DescribedElement {};
template <>
struct ArrayElement<CallId::cuArray3DCreate> : DescribedElement {};
template <>
struct ArrayElement<CallId::cuArray3DCreate_v2> : DescribedElement {};
template <>
struct ArrayElement<CallId::cuMipmappedArrayCreate> : DescribedElement {};

// What the entries jump to, by call id.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const void* const tt_calls_Driver[format::kCallCount] = {
#include "format/calls.def"
};

}  // namespace traintrace
