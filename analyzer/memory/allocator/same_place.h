// When two places in the code count as one.
#pragma once

#include <string>

#include "analyzer/model/process/code_place.h"

namespace traintrace {

// Of two runs the file may have been edited between them.
enum class SamePlace : uint8_t { kLine, kFunction };

// Equal of those that are the same: "train.py:12 in step", "train.py in step".
inline std::string place_text(const CodePlace& place, SamePlace same) {
  if (same == SamePlace::kLine) {
    return place_text(place);
  }
  const std::string file = place.file.substr(place.file.rfind('/') + 1);
  // Without names the function is an offset, which another build has elsewhere.
  return place.language == "native" || place.function.empty() ? file
                                                              : file + " in " + place.function;
}

}  // namespace traintrace
