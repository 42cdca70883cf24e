// Divergences in words.
#pragma once

#include <string>

#include "analyzer/model/run.h"

namespace traintrace {

std::string divergence_title(const Run& run, const Divergence& divergence);
// "rank 2: ncclAllReduce of 512 float32 (2048 bytes), sum, called at train.py:118 in step"
std::string call_text(const Run& run, const SideCall& call, const Ranks& ranks);
const char* divergence_advice(DivergenceKind kind);

}  // namespace traintrace
