// Texts of `traintrace findings`.
#pragma once

#include <string>
#include <vector>

#include "analyzer/detectors/catalogue.h"

namespace traintrace {

// A row as sections: when it is reported, usual causes, how to confirm, how to fix, an example.
std::string explain(const CatalogueRow& row);

// Rows that mention all words, in whatever case: first those that do so in the code or in the line
// that says what they mean.  No words: all.
std::vector<const CatalogueRow*> find_rows(const std::vector<std::string>& words);

// Every number that decides a verdict: name, value, why.
std::string thresholds_text();

}  // namespace traintrace
