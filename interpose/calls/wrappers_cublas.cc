#include <library_types.h>

#include "interpose/calls/cublas_api.h"
#include "interpose/calls/wrap.h"

#define TT_ROW_Runtime TT_LEAVE
#define TT_ROW_Driver TT_LEAVE
#define TT_ROW_Nccl TT_LEAVE
#define TT_ROW_Cublas TT_TAKE
#define TT_ROW_CublasLt TT_LEAVE

namespace traintrace {

template <>
inline constexpr cublas::Status kMissingOriginal<cublas::Status> = cublas::Status::kNotSupported;

// What the entries jump to, by call id.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const void* const tt_calls_Cublas[format::kCallCount] = {
#include "format/calls.def"
};

}  // namespace traintrace
