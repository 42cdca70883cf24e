#include "analyzer/commands/help/option_values.h"

#include <algorithm>
#include <string_view>

namespace traintrace {
namespace {

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> words;
  while (true) {
    const size_t end = text.find(at);
    words.emplace_back(text.substr(0, end));
    if (end == text.npos) {
      return words;
    }
    text.remove_prefix(end + 1);
  }
}

struct ValueName {
  std::string_view option;
  const char* name;
};
// Of those that take any text, by what it is about.
constexpr ValueName kValueNames[] = {
    {"--interval", "TIME"},
    {"--hang-after", "TIME"},
    {"--linger", "TIME"},
    {"--since", "TIME"},
    {"--until", "TIME"},
    {"--output", "FILE"},
    {"--prometheus", "FILE"},
    {"--out", "FILE"},
    {"--dir", "DIR"},
    {"--to", "DIR"},
    {"--artifacts", "DIR"},
    {"--on-hang", "COMMAND"},
    {"--only", "CODE,.."},
    {"--call", "GLOB"},
    {"--communication-kernels", "REGEX"},
    {"--rank", "RANKS"},
    {"--limit", "N"},
    {"--columns", "NAME,.."},
    {"--run", "ID"},
    {"--ring", "all|none|TIME"},
};

}  // namespace

std::vector<std::string> dashed_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  return names;
}

bool is_flag(const CLI::Option& option) {
  return option.get_type_size() == 0 || option.get_items_expected_max() == 0;
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = open == type.npos ? type.npos : type.find('}', open);
  if (close != type.npos) {  // CLI::IsMember: "TEXT:{text,json,html}"
    return split(std::string_view(type).substr(open + 1, close - open - 1), ',');
  }
  return type.find('|') == type.npos ? std::vector<std::string>() : split(type, '|');
}

std::string name_of_value(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (is_flag(option)) {
    return "";
  }
  if (type != "TEXT" && type != "UINT") {
    return type.substr(0, type.find(":INT in "));  // "N:INT in [1 - 1048576]"
  }
  if (option.get_lnames().empty()) {
    return "";
  }
  const std::string name = "--" + option.get_lnames().front();
  const auto* const known =
      std::find_if(std::begin(kValueNames), std::end(kValueNames),
                   [&](const ValueName& each) { return each.option == name; });
  return known == std::end(kValueNames) ? "NAME" : known->name;
}

}  // namespace traintrace
