#include "analyzer/commands/completions.h"

#include <algorithm>
#include <vector>

#include "analyzer/detectors/catalogue.h"
#include "format/schema.h"

namespace traintrace {
namespace {

using Words = std::vector<std::string>;

std::vector<const CLI::App*> commands_of(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App*) { return true; });
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

Words split(std::string_view text, char at) {
  Words words;
  for (size_t end = 0; end != text.npos; text.remove_prefix(end + 1)) {
    end = text.find(at);
    words.emplace_back(text.substr(0, end));
    if (end == text.npos) {
      break;
    }
  }
  return words;
}

bool is_offered(const CLI::Option& option) {
  return !option.get_group().empty() && !option.get_lnames().empty();
}

bool is_flag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

Words codes() {
  Words all;
  for (const CatalogueRow& row : catalogue()) {
    if (row.built) {
      all.emplace_back(row.code);
    }
  }
  return all;
}

// What may be written; empty: anything, or a file.
Words values_of(const CLI::App& root, const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  if (open != type.npos && type.find('}', open) != type.npos) {  // CLI::IsMember
    return split(type.substr(open + 1, type.find('}', open) - open - 1), ',');
  }
  if (type.find('|') != type.npos) {  // of a setting
    return split(type, '|');
  }
  const std::string name = option.get_name();
  if (name == "--only" || name == "CODE") {
    return codes();
  }
  Words words;
  if (name == "COMMAND") {
    for (const CLI::App* command : commands_of(root)) {
      words.push_back(command->get_name());
    }
  } else if (name == "NAME") {
    for (const format::SettingSpec& setting : format::kSettings) {
      words.emplace_back(setting.environment);
    }
  }
  return words;
}

// The first positional argument that has values.
Words argument_values(const CLI::App& root, const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() && option->get_lnames().empty()) {
      return values_of(root, *option);
    }
  }
  return {};
}

// In single quotes of a shell.
std::string quoted(const std::string& text, std::string_view escaped = "") {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\''                         ? std::string("'\\''")
           : escaped.find(c) != escaped.npos ? std::string("\\") + c
                                             : std::string(1, c);
  }
  return out + "'";
}

}  // namespace

std::string bash_completion(const CLI::App& root) {
  Words names;
  std::string cases;
  std::string values;
  for (const CLI::App* command : commands_of(root)) {
    names.push_back(command->get_name());
    Words options;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : is_offered(*option) ? option->get_lnames() : Words()) {
        options.push_back("--" + name);
        const Words known = is_flag(*option) ? Words() : values_of(root, *option);
        if (!known.empty()) {
          values += "    '" + command->get_name() + " --" + name + "') words='" + joined(known) +
                    "' ;;\n";
        }
      }
    }
    cases += "    " + command->get_name() + ") options='" + joined(options) + "' words='" +
             joined(argument_values(root, *command)) + "' ;;\n";
  }
  // bash takes --format=json for three words.
  return "_traintrace() {\n"
         "  local words= options= option= word=${COMP_WORDS[COMP_CWORD]}\n"
         "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W '" +
         joined(names) +
         "' -- \"$word\"))\n    return\n  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  if [[ $word == = ]]; then\n    option=${COMP_WORDS[COMP_CWORD-1]} word=\n"
         "  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then\n"
         "    option=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  elif [[ $word == -* ]]; then\n    words=$options\n"
         "  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == --* ]]; then\n"
         "    option=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  elif ((COMP_CWORD > 2)); then\n    words=\n  fi\n"
         "  case \"${COMP_WORDS[1]} $option\" in\n" +
         values +
         "    *' --'*) words= ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
         "complete -o default -F _traintrace traintrace\n";
}

std::string zsh_completion(const CLI::App& root) {
  constexpr std::string_view kEscaped = "[]:\\";
  std::string names;
  std::string cases;
  for (const CLI::App* command : commands_of(root)) {
    names += "      " + quoted(command->get_name() + ":" + command->get_description()) + "\n";
    cases += "    " + command->get_name() + ")\n      _arguments";
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : is_offered(*option) ? option->get_lnames() : Words()) {
        const Words known = values_of(root, *option);
        const std::string told =
            quoted(option->get_description(), kEscaped).substr(1);  // with the quote at the end
        cases += " \\\n        '--" + name + (is_flag(*option) ? "[" : "=[") +
                 told.substr(0, told.size() - 1) + "]" +
                 (is_flag(*option) ? ""
                  : known.empty()  ? ":value:_files"
                                   : ":value:(" + joined(known) + ")") +
                 "'";
      }
    }
    const Words known = argument_values(root, *command);
    cases += (known.empty() ? "" : " \\\n        '1:value:(" + joined(known) + ")'") +
             std::string(" \\\n        '*:file:_files' ;;\n");
  }
  return "#compdef traintrace\n"
         "_traintrace() {\n  local -a commands\n"
         "  if ((CURRENT == 2)); then\n    commands=(\n" +
         names +
         "    )\n    _describe command commands\n    return\n  fi\n"
         "  shift words\n  ((CURRENT--))\n  case ${words[1]} in\n" +
         cases + "  esac\n}\n_traintrace \"$@\"\n";
}

std::string fish_completion(const CLI::App& root) {
  std::string text;
  for (const CLI::App* command : commands_of(root)) {
    const std::string& name = command->get_name();
    text += "complete -c traintrace -f -n __fish_use_subcommand -a " + name + " -d " +
            quoted(command->get_description(), "\\") + "\n";
    const std::string of_command =
        "complete -c traintrace -n '__fish_seen_subcommand_from " + name + "'";
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& word : is_offered(*option) ? option->get_lnames() : Words()) {
        const Words known = is_flag(*option) ? Words() : values_of(root, *option);
        const std::string argument = is_flag(*option) ? ""
                                     : known.empty()  ? " -r"
                                                      : " -x -a " + quoted(joined(known));
        text.append(of_command).append(" -l ").append(word).append(argument);
        text.append(" -d ").append(quoted(option->get_description(), "\\")).append("\n");
      }
    }
    const Words known = argument_values(root, *command);
    text += known.empty() ? "" : of_command + " -a " + quoted(joined(known)) + "\n";
  }
  return text;
}

}  // namespace traintrace
