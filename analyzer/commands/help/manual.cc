#include "analyzer/commands/help/manual.h"

#include "analyzer/commands/help/examples.h"
#include "analyzer/commands/help/option_values.h"
#include "analyzer/detectors/catalogue.h"
#include "analyzer/text/joined.h"
#include "format/schema.h"

namespace traintrace {
namespace {

std::vector<const CLI::App*> subcommands(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App*) { return true; });
}

std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

bool is_explained(const CLI::Option& option) {
  const bool hidden = option.get_group().empty();
  return !hidden && (option.get_lnames().empty() || option.get_lnames()[0] != "help");
}

std::string usage_line(const CLI::App& command) {
  std::string line = ".TP\n.B " + roff("traintrace " + command.get_name());
  for (const CLI::Option* option : command.get_options()) {
    line += option->get_positional() ? " [" + roff(option->get_name(true)) + "]" : "";
  }
  return line + '\n' + roff(command.get_description()) + '\n';
}

// As its lines are.
std::string literal(const std::string& text) {
  std::string out = ".nf\n";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out += roff(text.substr(at, end - at)) + '\n';
    at = end + 1;
  }
  return out + ".fi\n";
}

// "-o, --output=FILE", "--format=text|json|html", "--all"; of an argument its name.
std::string usage_of(const CLI::Option& option) {
  const std::vector<std::string> names = dashed_names(option);
  if (names.empty()) {
    return option.get_name(true);
  }
  const std::vector<std::string> choices = choices_of(option);
  const std::string value = choices.empty() ? name_of_value(option) : joined(choices, "|");
  return joined(names, ", ") + (value.empty() ? "" : "=" + value);
}

std::string meaning_of(const CLI::Option& option) {
  const std::vector<std::string> choices =
      option.get_lnames().empty() ? choices_of(option) : std::vector<std::string>();
  const std::string fallback = option.get_default_str();
  return option.get_description() + (choices.empty() ? "" : ": " + joined(choices, ", ")) +
         (fallback.empty() ? "" : " (default: " + fallback + ")");
}

std::string option_lines(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (is_explained(*option)) {
      text += ".TP\n.B " + roff(usage_of(*option)) + '\n' + roff(meaning_of(*option)) + '\n';
    }
  }
  text += ".PP\n" + literal(usage_notes(command.get_name()));
  return ".SS " + roff("traintrace " + command.get_name()) + '\n' + text;
}

}  // namespace

std::string man_page(const CLI::App& root) {
  std::string text =
      ".TH TRAINTRACE 1\n.SH NAME\ntraintrace \\- " + roff(root.get_description()) +
      "\n.SH SYNOPSIS\n.B traintrace\nCOMMAND [OPTION]... [ARGUMENT]...\n.SH COMMANDS\n";
  for (const CLI::App* command : subcommands(root)) {
    text += usage_line(*command);
  }
  text += ".SH EXAMPLES\n" + literal(examples_of("")) + ".SH OPTIONS\n";
  for (const CLI::App* command : subcommands(root)) {
    text += option_lines(*command);
  }
  text += ".SH ENVIRONMENT\n";
  for (const format::SettingSpec& setting : format::kSettings) {
    text += ".TP\n.B " + roff(setting.environment) + '=' + roff(setting.values) + '\n' +
            roff(setting.meaning) + " (default: " + roff(setting.fallback) + ")\n";
  }
  text += ".SH FINDINGS\n.B traintrace findings\nCODE explains one.\n";
  for (const CatalogueRow& row : catalogue()) {
    text += row.built ? ".TP\n.B " + roff(row.code) + '\n' + roff(row.meaning) + '\n' : "";
  }
  return text +
         ".SH EXIT STATUS\n0 on success, 2 for a usage error or if no input could be used.\n"
         ".B analyze\nand\n.B attach\ngive 1 with a finding of severity error,\n"
         ".B run\ngives the program's status, 128 + N after signal N.\n";
}

}  // namespace traintrace
