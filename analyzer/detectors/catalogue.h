// Every code that a finding can have: what `traintrace findings` prints, and where detectors take
// their severity from.  The rows are docs/findings/*.md, which are built into the program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/detectors/finding.h"

namespace traintrace {

// Text of a row: paragraphs and items of lists, each on one line; examples with all their lines.
using Lines = std::vector<std::string>;

struct ValueRow {
  std::string key;
  std::string meaning;  // with its unit, where the key does not end in it
};

struct CatalogueRow {
  std::string code;
  Severity severity = Severity::kError;  // a detector lowers it where a case is harmless
  bool built = true;                     // there is a detector for it
  std::string meaning;                   // one line
  Lines explanation;                     // when it is reported, and what it cannot tell
  Lines causes;                          // as users of PyTorch, Megatron and DeepSpeed meet them
  Lines confirm;
  Lines fix;
  Lines example;
  std::vector<ValueRow> values;  // keys of `values` in JSON
  Lines related;                 // codes
};

// What is wrong with the text of rows, as FILE:LINE: WHAT.
using Problems = std::vector<std::string>;
std::vector<CatalogueRow> parse_catalogue(std::string_view file, std::string_view text,
                                          Problems& problems);

std::span<const CatalogueRow> catalogue();                 // by family, in the order of its file
const CatalogueRow* catalogue_row(std::string_view code);  // null: there is no such code
const Problems& catalogue_problems();                      // of the rows that are built in

}  // namespace traintrace
