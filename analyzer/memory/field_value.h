// A field of a call by its name.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

using FieldValues = std::span<const uint64_t>;  // as many as the call's schema has fields, or fewer

inline std::optional<uint64_t> field_value(FieldValues values, const CallSchema& schema,
                                           std::string_view name) {
  for (size_t i = 0; i < values.size() && i < schema.fields.size(); ++i) {
    if (schema.fields[i].name == name) {
      return values[i];
    }
  }
  return std::nullopt;
}

// 0 where it has none.
inline uint64_t number_in(FieldValues values, const CallSchema& schema, std::string_view name) {
  return field_value(values, schema, name).value_or(0);
}

}  // namespace traintrace
