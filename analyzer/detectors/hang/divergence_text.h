// Divergences in words.
#pragma once

#include <string>

#include "analyzer/model/run.h"

namespace traintrace {

std::string divergence_title(const Run& run, const Divergence& divergence);
// "rank 2: ncclAllReduce of 512 float32 (2048 bytes), sum, called at train.py:118 in step"
std::string call_text(const Run& run, const SideCall& call, const Ranks& ranks);
// Of the ranks that did as `expected`, those that made that very call.
Ranks callers_of(const Run& run, const Divergence& divergence);
const char* divergence_advice(const Run& run, const Divergence& divergence);

}  // namespace traintrace
