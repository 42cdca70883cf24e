// The names that a trace gives to its own calls, fields and statistics.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct StatRow {
  std::string name;
  std::string severity;
};

struct Schema {
  std::vector<CallSchema> calls;
  std::vector<uint32_t> index_of_id;  // ids that are not there: kNoCall
  std::map<uint32_t, StatRow> stats;  // by index in the section

  static constexpr uint32_t kNoCall = ~uint32_t{0};
  // The call of that id; one that the schema does not name is added as "call#ID".
  uint32_t call(uint16_t id);
};

// Lines that make no sense are left out and counted.
Schema parse_schema(std::string_view text, size_t& bad_lines);

}  // namespace traintrace
