// traintrace findings [CODE]: what can be found.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/commands/command.h"
#include "analyzer/detectors/catalogue.h"
#include "analyzer/text/nearest.h"

namespace traintrace {
namespace {

std::string_view severity_of(const CatalogueRow& row) {
  return name_of(row.severity);
}

std::string list_text() {
  std::string text;
  for (const CatalogueRow& row : catalogue()) {
    text += fmt::format("{:<42} {:<8} {}{}\n", row.code, severity_of(row), row.meaning,
                        row.built ? "" : " (not built yet)");
  }
  return text;
}

std::string one_text(const CatalogueRow& row) {
  std::string text = fmt::format("{} ({})\n{}\n", row.code, severity_of(row), row.meaning);
  if (!row.built) {
    return text + "not built yet\n";
  }
  if (!row.explanation.empty()) {
    text += fmt::format("\n{}\n", row.explanation);
  }
  if (!row.values.empty()) {
    text += fmt::format("\nvalues: {}\n", row.values);
  }
  return text;
}

nlohmann::ordered_json one_json(const CatalogueRow& row) {
  return {{"code", row.code},       {"severity", severity_of(row)},   {"built", row.built},
          {"meaning", row.meaning}, {"explanation", row.explanation}, {"values", row.values}};
}

int show(const std::string& code, bool json) {
  if (!code.empty() && catalogue_row(code) == nullptr) {
    std::vector<std::string> known;
    for (const CatalogueRow& row : catalogue()) {
      known.emplace_back(row.code);
    }
    return fail("no finding has the code " + code + did_you_mean(code, known));
  }
  if (!json) {
    return print(code.empty() ? list_text() : one_text(*catalogue_row(code)));
  }
  nlohmann::ordered_json document = {{"schema", "traintrace.catalogue/1"}};
  nlohmann::ordered_json& rows = document["findings"] = nlohmann::ordered_json::array();
  for (const CatalogueRow& row : catalogue()) {
    if (code.empty() || code == row.code) {
      rows.push_back(one_json(row));
    }
  }
  return print(document.dump(2) + '\n');
}

}  // namespace

void declare_findings(CLI::App& command, Invocation& invocation) {
  auto code = std::make_shared<std::string>();
  auto form = std::make_shared<std::string>();
  command.add_option("CODE", *code, "explain this finding");
  add_format(command, *form, {"text", "json"});
  command.callback([code, form, &invocation] { invocation.status = show(*code, *form == "json"); });
}

}  // namespace traintrace
