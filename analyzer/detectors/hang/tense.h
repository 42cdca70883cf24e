// What is over is said in the past tense.
#pragma once

#include <string>

#include "analyzer/model/run.h"

namespace traintrace {

// "wait", "waits"; of ranks that have all ended "waited".
const char* waits_word(const Run& run, const Ranks& ranks);
// "is", "are"; of those "was", "were".
const char* is_word(const Run& run, const Ranks& ranks);
// "3 ranks wait", "rank 0 waits", "3 ranks waited", in that operation.
std::string waiting_text(const Run& run, const Wait& wait);

}  // namespace traintrace
