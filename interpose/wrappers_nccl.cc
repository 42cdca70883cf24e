#include <nccl.h>

#include "interpose/specials_nccl.h"
#include "interpose/wrap.h"

#define TT_ROW_Runtime TT_LEAVE
#define TT_ROW_Driver TT_LEAVE
#define TT_ROW_Nccl TT_TAKE

namespace traintrace {

template <>
inline constexpr ncclResult_t kMissingOriginal<ncclResult_t> = ncclSystemError;

// What the entries jump to, by call id.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const void* const tt_calls_Nccl[format::kCallCount] = {
#include "format/calls.def"
};

}  // namespace traintrace
