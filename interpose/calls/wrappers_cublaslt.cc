#include "interpose/calls/cublas_api.h"
#include "interpose/calls/layouts.h"
#include "interpose/calls/wrap.h"

#define TT_ROW_Runtime TT_LEAVE
#define TT_ROW_Driver TT_LEAVE
#define TT_ROW_Nccl TT_LEAVE
#define TT_ROW_Cublas TT_LEAVE
#define TT_ROW_CublasLt TT_TAKE

namespace traintrace {

template <>
inline constexpr cublas::Status kMissingOriginal<cublas::Status> = cublas::Status::kNotSupported;

template <>
struct Special<format::CallId::cublasLtMatmul> {
  static void before(OpenFrame& frame, Scratch& scratch, cublas::Handle, void*, const void*,
                     const void*, cublas::Layout a, const void*, cublas::Layout b, const void*,
                     const void*, cublas::Layout, void*, cublas::Layout d, auto...) noexcept {
    read_layouts(*frame.thread, a, b, d, scratch.matrices);
  }
  static void after(OpenFrame&, Scratch&, int, uint64_t, auto...) noexcept {}
};

// What the entries jump to, by call id.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const void* const tt_calls_CublasLt[format::kCallCount] = {
#include "format/calls.def"
};

}  // namespace traintrace
