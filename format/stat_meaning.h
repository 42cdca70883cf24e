// What a counter of lost records says, in words (stats.def).
#pragma once

#include <string_view>

#include "format/schema.h"

namespace traintrace::format {

// Of one that is not known, its own name.
constexpr std::string_view meaning_of_stat(std::string_view stat) {
  for (const StatSpec& spec : kStatSpecs) {
    if (stat == spec.name) {
      return spec.meaning;
    }
  }
  return stat;
}

}  // namespace traintrace::format
