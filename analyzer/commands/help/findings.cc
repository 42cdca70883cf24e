// traintrace findings [CODE | WORD...]: what can be found, and by which numbers.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/commands/command.h"
#include "analyzer/commands/help/explain.h"
#include "analyzer/detectors/catalogue.h"
#include "analyzer/text/joined.h"
#include "analyzer/text/nearest.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using Rows = std::vector<const CatalogueRow*>;

std::string list_text(const Rows& rows) {
  std::string text;
  for (const CatalogueRow* row : rows) {
    text += fmt::format("{:<42} {:<8} {}{}\n", row->code, name_of(row->severity), row->meaning,
                        row->built ? "" : " (not built yet)");
  }
  return text;
}

nlohmann::ordered_json one_json(const CatalogueRow& row) {
  nlohmann::ordered_json meanings = nlohmann::ordered_json::object();
  Lines keys;
  for (const ValueRow& value : row.values) {
    keys.push_back(value.key);
    meanings[value.key] = value.meaning;
  }
  return {{"code", row.code},
          {"severity", name_of(row.severity)},
          {"built", row.built},
          {"meaning", row.meaning},
          {"explanation", joined(row.explanation, "\n")},
          {"causes", row.causes},
          {"confirm", row.confirm},
          {"fix", row.fix},
          {"example", joined(row.example, "\n")},
          {"values", joined(keys, " ")},
          {"value_meanings", meanings},
          {"related", row.related}};
}

std::string rows_json(const Rows& rows) {
  nlohmann::ordered_json document = {{"schema", "traintrace.catalogue/1"}};
  nlohmann::ordered_json& list = document["findings"] = nlohmann::ordered_json::array();
  for (const CatalogueRow* row : rows) {
    list.push_back(one_json(*row));
  }
  return document.dump(2) + '\n';
}

std::string thresholds_json() {
  nlohmann::ordered_json document = {{"schema", "traintrace.thresholds/1"}};
  nlohmann::ordered_json& list = document["thresholds"] = nlohmann::ordered_json::array();
  for (const Threshold& threshold : thresholds()) {
    list.push_back({{"area", threshold.area},
                    {"name", name_of(threshold)},
                    {"value", threshold.value},
                    {"unit", unit_name(threshold)},
                    {"why", threshold.why}});
  }
  return document.dump(2) + '\n';
}

int complain(const std::string& wanted) {
  Lines known;
  for (const CatalogueRow& row : catalogue()) {
    known.push_back(row.code);
  }
  const bool is_code = wanted.find('.') != wanted.npos;
  return fail(
      (is_code ? "no finding has the code " + wanted : "no finding mentions '" + wanted + "'") +
      did_you_mean(wanted, known));
}

int show(const Lines& words, bool json) {
  Rows rows;
  const CatalogueRow* const exact = words.size() == 1 ? catalogue_row(words[0]) : nullptr;
  if (exact != nullptr) {
    rows = {exact};
  } else {
    rows = find_rows(words);
  }
  if (rows.empty()) {
    return complain(joined(words, " "));
  }
  return print(json ? rows_json(rows) : exact != nullptr ? explain(*exact) : list_text(rows));
}

}  // namespace

void declare_findings(CLI::App& command, Invocation& invocation) {
  auto words = std::make_shared<Lines>();
  auto form = std::make_shared<std::string>();
  auto numbers = std::make_shared<bool>(false);
  command.add_option("CODE", *words,
                     "explain this finding; another word: list those that mention it");
  command.add_flag("--thresholds", *numbers, "list every number that decides a verdict");
  add_format(command, *form, {"text", "json"});
  command.callback([words, form, numbers, &invocation] {
    const bool json = *form == "json";
    invocation.status =
        *numbers ? print(json ? thresholds_json() : thresholds_text()) : show(*words, json);
  });
}

}  // namespace traintrace
