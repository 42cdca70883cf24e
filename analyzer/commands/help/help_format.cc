#include "analyzer/commands/help/help_format.h"

#include <algorithm>
#include <string_view>

#include "analyzer/commands/help/option_values.h"
#include "analyzer/text/screen.h"

namespace traintrace {
namespace {

constexpr size_t kNames = 30;    // columns of names, before what they mean
constexpr size_t kWidest = 100;  // in a pipe too: a manual is read, not parsed
constexpr size_t kNarrowest = 60;
constexpr size_t kLongValues = 44;  // such values stand in the description

Screen help_screen() {
  Screen screen = stdout_screen();
  screen.columns = screen.columns == 0 ? kWidest : std::clamp(screen.columns, kNarrowest, kWidest);
  return screen;
}

// "{text,json,html}" of "TEXT:{text,json,html}"; empty: anything.
std::string allowed_values(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  return open == type.npos || type.back() != '}' ? "" : type.substr(open);
}

std::string without_braces(std::string values) {
  values = values.substr(1, values.size() - 2);
  for (size_t at = values.find(','); at != values.npos; at = values.find(',', at + 2)) {
    values.insert(at + 1, " ");
  }
  return values;
}

}  // namespace

HelpFormat::HelpFormat() {
  column_width(kNames);
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name,
                                  CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  // A group of options that are not shown leaves an empty line.
  for (size_t at = text.find("\n\n\n"); at != text.npos; at = text.find("\n\n\n", at)) {
    text.erase(at, 1);
  }
  return text;
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) {
    return "";
  }
  const std::string values = allowed_values(*option);
  const std::string name = values.size() > kLongValues ? ""
                           : values.empty()            ? name_of_value(*option)
                                                       : values;
  return (name.empty() ? "" : " " + name) +
         (option->get_default_str().empty() ? "" : "=" + option->get_default_str()) +
         (option->get_expected_max() == CLI::detail::expected_max_vector_size ? " .." : "");
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  const std::string values = allowed_values(*option);
  Screen screen = help_screen();
  screen.columns -= kNames;
  std::string text = option->get_description();
  text += values.size() > kLongValues ? ": " + without_braces(values) : "";
  std::string lines = wrapped("", text, 0, screen);
  if (lines.ends_with('\n')) {
    lines.pop_back();
  }
  return lines;
}

namespace {

// A command is there to be copied and stays whole: what it is for gives way to the next line.
std::string example(const std::string& line, const Screen& screen) {
  constexpr size_t kIndent = 2;
  const size_t gap = line.find("  ", kIndent);
  const size_t purpose = gap == line.npos ? gap : line.find_first_not_of(' ', gap);
  if (screen.columns == 0 || width_of(line) <= screen.columns || purpose == line.npos) {
    return line + "\n";
  }
  return line.substr(0, gap) + "\n" +
         wrapped(std::string(3 * kIndent, ' '), line.substr(purpose), 3 * kIndent, screen);
}

}  // namespace

// Sentences are cut at blanks.
std::string HelpFormat::make_footer(const CLI::App* app) const {
  std::string out;
  const std::string text = app->get_footer();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    out += line.starts_with(' ') ? example(line, help_screen())
           : line.empty()        ? "\n"
                                 : wrapped("", line, 2, help_screen());
    at = end + 1;
  }
  return out;
}

}  // namespace traintrace
