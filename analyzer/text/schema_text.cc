#include "analyzer/text/schema_text.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/text/words.h"
#include "format/schema.h"

namespace traintrace {
namespace {

CallSchema schema_of(const format::CallSpec& spec) {
  CallSchema call{spec.name,
                  format::kLibraryNames[static_cast<size_t>(spec.library)],
                  format::spec_of(spec.kind).name,
                  {}};
  for (int i = 0; i < spec.field_count; ++i) {
    const format::FieldName& field = format::kFieldNames[static_cast<size_t>(spec.fields[i].field)];
    call.fields.push_back({field.name, field.format, spec.fields[i].after_call});
  }
  return call;
}

CallSchema schema_of(const format::MomentSpec& spec) {
  CallSchema call{spec.name, spec.library, format::spec_of(spec.kind).name, {}};
  for (int i = 0; i < spec.field_count; ++i) {
    const format::FieldName& field = format::kFieldNames[static_cast<size_t>(spec.fields[i])];
    call.fields.push_back({field.name, field.format, false});
  }
  return call;
}

}  // namespace

const std::vector<CallSchema>& known_calls() {
  static const std::vector<CallSchema>& calls = *[] {
    auto* all = new std::vector<CallSchema>;
    for (const format::CallSpec& spec : format::kCalls) {
      all->push_back(schema_of(spec));
    }
    for (const format::MomentSpec& spec : format::kMoments) {
      all->push_back(schema_of(spec));
    }
    return all;
  }();
  return calls;
}

const CallSchema* known_call(std::string_view name) {
  static const auto& by_name = *[] {
    auto* map = new std::unordered_map<std::string_view, const CallSchema*>;
    for (const CallSchema& call : known_calls()) {
      map->emplace(call.name, &call);
    }
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

bool is_known_call(const CallSchema& call) {
  const CallSchema* known = known_call(call.name);
  return known != nullptr && known->library == call.library && known->kind == call.kind &&
         std::equal(call.fields.begin(), call.fields.end(), known->fields.begin(),
                    known->fields.end(), [](const FieldSchema& a, const FieldSchema& b) {
                      return a.name == b.name && a.format == b.format &&
                             a.after_call == b.after_call;
                    });
}

std::string call_line(const CallSchema& call) {
  std::string line =
      "call " + quoted(call.name) + ' ' + quoted(call.library) + ' ' + quoted(call.kind);
  for (const FieldSchema& field : call.fields) {
    line += ' ' + quoted((field.after_call ? "out:" : "in:") + field.name + ':' + field.format);
  }
  return line;
}

std::optional<FieldSchema> parse_field(std::string_view word) {
  const bool after = word.starts_with("out:");
  if (!after && !word.starts_with("in:")) {
    return std::nullopt;
  }
  word.remove_prefix(after ? 4 : 3);
  const size_t colon = word.find(':');
  if (colon == 0 || colon == word.npos || colon + 1 == word.size()) {
    return std::nullopt;
  }
  return FieldSchema{std::string(word.substr(0, colon)), std::string(word.substr(colon + 1)),
                     after};
}

}  // namespace traintrace
