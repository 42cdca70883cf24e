// traintrace settings: what can be set.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/commands/command.h"
#include "format/schema.h"

namespace traintrace {
namespace {

std::string settings_text() {
  std::string text;
  for (const format::SettingSpec& setting : format::kSettings) {
    text += fmt::format("{}={}\n    run --{}={}\n    {}\n", setting.environment, setting.fallback,
                        setting.option, setting.values, setting.meaning);
  }
  return text;
}

std::string settings_json() {
  nlohmann::ordered_json document = {{"schema", "traintrace.settings/1"}};
  nlohmann::ordered_json& rows = document["settings"] = nlohmann::ordered_json::array();
  for (const format::SettingSpec& setting : format::kSettings) {
    rows.push_back({{"environment", setting.environment},
                    {"option", setting.option},
                    {"default", setting.fallback},
                    {"values", setting.values},
                    {"meaning", setting.meaning}});
  }
  return document.dump(2) + '\n';
}

}  // namespace

void declare_settings(CLI::App& command, Invocation& invocation) {
  auto form = std::make_shared<std::string>();
  add_format(command, *form, {"text", "json"});
  command.callback([form, &invocation] {
    invocation.status = print(*form == "json" ? settings_json() : settings_text());
  });
}

}  // namespace traintrace
