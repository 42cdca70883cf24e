// traintrace calls: what is intercepted.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/commands/command.h"
#include "format/schema.h"

namespace traintrace {
namespace {

std::string fields_of(const format::CallSpec& call) {
  std::string fields;
  for (int i = 0; i < call.field_count; ++i) {
    fields += fields.empty() ? "" : " ";
    fields += format::kFieldNames[static_cast<size_t>(call.fields[i].field)].name;
  }
  return fields;
}

std::string calls_text() {
  std::string text;
  for (const format::CallSpec& call : format::kCalls) {
    const std::string line = fmt::format("{:<44} {:<8} {:<16} {}", call.name,
                                         format::kLibraryNames[static_cast<size_t>(call.library)],
                                         format::spec_of(call.kind).name, fields_of(call));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

std::string calls_json() {
  nlohmann::ordered_json document = {{"schema", "traintrace.calls/1"}};
  nlohmann::ordered_json& rows = document["calls"] = nlohmann::ordered_json::array();
  for (const format::CallSpec& call : format::kCalls) {
    nlohmann::ordered_json fields = nlohmann::ordered_json::array();
    for (int i = 0; i < call.field_count; ++i) {
      fields.push_back(format::kFieldNames[static_cast<size_t>(call.fields[i].field)].name);
    }
    rows.push_back({{"name", call.name},
                    {"library", format::kLibraryNames[static_cast<size_t>(call.library)]},
                    {"kind", format::spec_of(call.kind).name},
                    {"stack", format::spec_of(call.kind).stack},
                    {"fields", fields}});
  }
  return document.dump(2) + '\n';
}

}  // namespace

void declare_calls(CLI::App& command, Invocation& invocation) {
  auto form = std::make_shared<std::string>();
  add_format(command, *form, {"text", "json"});
  command.callback([form, &invocation] {
    invocation.status = print(*form == "json" ? calls_json() : calls_text());
  });
}

}  // namespace traintrace
