// Every code that a finding can have: what `traintrace findings` prints, and where detectors take
// their severity from.
#pragma once

#include <span>
#include <string_view>

#include "analyzer/detectors/finding.h"

namespace traintrace {

struct CatalogueRow {
  std::string_view code;
  Severity severity;
  std::string_view meaning;      // one line
  std::string_view explanation;  // what it takes, what it cannot tell; empty until it is built
  std::string_view values;       // keys of `values`, separated by blanks
  bool built;                    // there is a detector for it
};

std::span<const CatalogueRow> catalogue();                 // in the order of docs/findings.md
const CatalogueRow* catalogue_row(std::string_view code);  // null: there is no such code

}  // namespace traintrace
