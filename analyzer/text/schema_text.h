// Calls that the text form takes for granted: those of this version's calls.def.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

const std::vector<CallSchema>& known_calls();         // by format::CallId
const CallSchema* known_call(std::string_view name);  // null: not in calls.def
bool is_known_call(const CallSchema& call);           // and exactly so

// `call NAME LIBRARY KIND FIELD..`
std::string call_line(const CallSchema& call);
// One FIELD: `in:NAME:FORMAT` or `out:NAME:FORMAT`.
std::optional<FieldSchema> parse_field(std::string_view word);

}  // namespace traintrace
