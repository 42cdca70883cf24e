// TRAINTRACE_CALLS names calls by patterns.
#pragma once

#include "interpose/base/files.h"

namespace traintrace {

// Of an intercepted function, or of a moment that the job reports; `id` as records have it.
const char* call_name(size_t id) noexcept;

// Those of `patterns` that match no call, separated by commas.
void name_unmatched(const char* patterns, Text& into) noexcept;

}  // namespace traintrace
