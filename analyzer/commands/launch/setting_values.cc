#include "analyzer/commands/launch/setting_values.h"

#include <vector>

#include "analyzer/text/nearest.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

std::vector<std::string> alternatives(std::string_view values) {
  std::vector<std::string> all;
  while (true) {
    const size_t bar = values.find('|');
    all.emplace_back(values.substr(0, bar));
    if (bar == values.npos) {
      return all;
    }
    values.remove_prefix(bar + 1);
  }
}

}  // namespace

std::string complaint_about(const format::SettingSpec& setting, std::string_view value) {
  const std::string_view values = setting.values;
  const std::string said = "--" + std::string(setting.option) + "=" + std::string(value);
  if (values.find('|') != values.npos) {
    const std::vector<std::string> all = alternatives(values);
    for (const std::string& one : all) {
      if (one == value) {
        return "";
      }
    }
    return said + " is none of " + std::string(values) + did_you_mean(value, all);
  }
  const size_t dots = values.find("..");
  const auto least = parse_unsigned(values.substr(0, dots));
  if (dots == values.npos || !least) {
    return value.empty() ? said + " is empty" : "";
  }
  const auto most = parse_unsigned(values.substr(dots + 2));
  const auto number = parse_unsigned(value);
  return number && *number >= *least && most && *number <= *most
             ? ""
             : said + " is not a number from " + std::string(values.substr(0, dots)) + " to " +
                   std::string(values.substr(dots + 2));
}

}  // namespace traintrace
