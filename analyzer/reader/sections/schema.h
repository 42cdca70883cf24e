// The names that a trace gives to its own calls, fields and statistics.
#pragma once

#include <map>
#include <memory>
#include <span>
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
  // Where rows and statistics are taken from when they are asked for; null: all are here.
  std::shared_ptr<const Schema> others = nullptr;

  static constexpr uint32_t kNoCall = ~uint32_t{0};
  // The call of that id; one that the schema does not name is added as "call#ID".
  uint32_t call(uint16_t id);
  const StatRow* stat(uint32_t index) const;  // null: it has no name
  // Those rows come first, in this order, whether the schema has them or not.
  void put_first(std::span<const CallSchema> rows);
};

// Lines that make no sense are left out and counted.
Schema parse_schema(std::string_view text, size_t& bad_lines);

// The same, with rows that come when they are asked for: a job's processes have one text, and use
// few of the 600 rows that it has.
Schema lean_schema(std::string_view text, size_t& bad_lines);

}  // namespace traintrace
