// traintrace settings [NAME]: what can be set.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/commands/command.h"
#include "analyzer/text/nearest.h"
#include "format/schema.h"

namespace traintrace {
namespace {

using SettingRows = std::vector<const format::SettingSpec*>;

std::string settings_text(const SettingRows& settings) {
  std::string text;
  for (const format::SettingSpec* setting : settings) {
    text += fmt::format("{}={}\n    run --{}={}\n    {}\n", setting->environment, setting->fallback,
                        setting->option, setting->values, setting->meaning);
  }
  return text;
}

std::string settings_json(const SettingRows& settings) {
  nlohmann::ordered_json document = {{"schema", "traintrace.settings/1"}};
  nlohmann::ordered_json& rows = document["settings"] = nlohmann::ordered_json::array();
  for (const format::SettingSpec* setting : settings) {
    rows.push_back({{"environment", setting->environment},
                    {"option", setting->option},
                    {"default", setting->fallback},
                    {"values", setting->values},
                    {"meaning", setting->meaning}});
  }
  return document.dump(2) + '\n';
}

// TRAINTRACE_RING_MB of "ring-mb" and "RING_MB".
std::string variable_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return "TRAINTRACE_" + name;
}

// By the name of its variable or of its option; empty: all.
int show_settings(const std::string& name, bool json) {
  SettingRows settings;
  std::vector<std::string> known;
  for (const format::SettingSpec& setting : format::kSettings) {
    known.insert(known.end(), {setting.environment, setting.option});
    if (name.empty() || name == setting.environment || name == setting.option ||
        variable_of(name) == setting.environment) {
      settings.push_back(&setting);
    }
  }
  if (settings.empty()) {
    return fail("there is no setting '" + name + "'" + did_you_mean(name, known));
  }
  return print(json ? settings_json(settings) : settings_text(settings));
}

}  // namespace

void declare_settings(CLI::App& command, Invocation& invocation) {
  auto name = std::make_shared<std::string>();
  auto form = std::make_shared<std::string>();
  command.add_option("NAME", *name, "explain this setting (default: all)");
  add_format(command, *form, {"text", "json"});
  command.callback(
      [name, form, &invocation] { invocation.status = show_settings(*name, *form == "json"); });
}

}  // namespace traintrace
