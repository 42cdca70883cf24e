// From an instruction of recorded Python code to its line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace traintrace {

// `table` is co_lnotab of CPython 3.9, co_linetable of 3.10, or the location table of 3.11 and
// later
// (`minor` says which), as it was recorded: nothing in it is trusted.  `instruction` is an offset
// in bytes, negative before the first instruction.  Nothing where the instruction belongs to no
// line, lies outside the table, or the table makes no sense.
//
// Rules: CPython's Objects/lnotab_notes.txt (3.9, 3.10) and InternalDocs/code_objects.md.
std::optional<int> python_line(int minor, int first_line, std::span<const uint8_t> table,
                               int instruction);

}  // namespace traintrace
