// JSON as plain values.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/importers/plain_value.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// Where the text begins, after blanks and the mark that some tools put before UTF-8; npos: nowhere.
size_t json_begin(std::string_view bytes);
bool looks_like_json(std::string_view bytes);

// Texts live in `arena`.
Result<Value> read_json(std::string_view bytes, const std::string& file, ValueArena& arena);

}  // namespace traintrace
