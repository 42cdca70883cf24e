// Pickles of plain data.  Whatever would make an object, import a name or call something is
// refused: nothing in a file is ever executed.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/importers/plain_value.h"
#include "analyzer/reader/result.h"

namespace traintrace {

bool looks_like_pickle(std::string_view bytes);

// Protocols 2 to 5.  Texts point into `bytes`.  Memory is bounded by a multiple of its size.
Result<Value> read_pickle(std::string_view bytes, const std::string& file, ValueArena& arena);

}  // namespace traintrace
