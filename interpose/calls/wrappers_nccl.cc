#include <nccl.h>

#include "interpose/calls/nccl_later.h"
#include "interpose/calls/specials_nccl.h"
#include "interpose/calls/wrap.h"

#define TT_ROW_Runtime TT_LEAVE
#define TT_ROW_Driver TT_LEAVE
#define TT_ROW_Nccl TT_TAKE
#define TT_ROW_Cublas TT_LEAVE
#define TT_ROW_CublasLt TT_LEAVE

namespace traintrace {

template <>
inline constexpr ncclResult_t kMissingOriginal<ncclResult_t> = ncclSystemError;

// What the entries jump to, by call id.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const void* const tt_calls_Nccl[format::kCallCount] = {
#include "format/calls.def"
};

// By second name.  A profiler that stands before NCCL comes here with a call that is open already.
#define TT_SECOND_NAME(library, kind, function, typed, per_thread, ...)                            \
  reinterpret_cast<const void*>(                                                                   \
      &Wrapper<format::Library::library, format::CallId::function, format::Kind::kind, per_thread, \
               decltype(&typed) __VA_OPT__(, )                                                     \
                   __VA_ARGS__>::template call<symbol_of(SecondName::p##function)>),
#define TT_NOTHING(...)
#define TT_CALL(library, kind, function, ...)  \
  TT_ROW_##library(TT_SECOND_NAME, TT_NOTHING, \
                   (library, kind, function, function, false __VA_OPT__(, ) __VA_ARGS__))
#define TT_CALL_PTSZ(...)
#define TT_CALL_PTDS(...)
#define TT_CALL_AS(...)
extern "C" [[gnu::visibility("hidden")]] const void* const  // NOLINTNEXTLINE(*-identifier-naming)
    tt_calls_second[static_cast<size_t>(SecondName::kCount)] = {
#include "format/calls.def"
};

}  // namespace traintrace
