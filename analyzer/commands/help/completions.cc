#include "analyzer/commands/help/completions.h"

#include <algorithm>
#include <vector>

#include "analyzer/commands/help/option_values.h"
#include "analyzer/detectors/catalogue.h"
#include "analyzer/text/joined.h"
#include "format/schema.h"

namespace traintrace {
namespace {

using Words = std::vector<std::string>;

std::vector<const CLI::App*> commands_of(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App*) { return true; });
}

bool is_offered(const CLI::Option& option) {
  return !option.get_group().empty() && !option.get_lnames().empty();
}

Words offered_names(const CLI::Option& option) {
  return is_offered(option) ? dashed_names(option) : Words();
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
  if (Words choices = choices_of(option); !choices.empty()) {
    return choices;
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

enum class Files : uint8_t { kAny, kFolders, kNone };

// Which of them may be the value of an option without known ones.
Files files_of(const CLI::Option& option) {
  const std::string name = name_of_value(option);
  return name == "DIR" || name == "folder"     ? Files::kFolders
         : name == "FILE" || name == "library" ? Files::kAny
                                               : Files::kNone;
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
      for (const std::string& name : offered_names(*option)) {
        options.push_back(name);
        if (is_flag(*option)) {
          continue;
        }
        const Words known = values_of(root, *option);
        const std::string of_option = "    '" + command->get_name() + " " + name + "') ";
        values += !known.empty() ? of_option + "words='" + joined(known, " ") + "' ;;\n"
                  : files_of(*option) == Files::kFolders
                      ? of_option + "words=$(compgen -d -- \"$word\") ;;\n"
                  : files_of(*option) == Files::kNone
                      ? of_option + "compopt +o default 2> /dev/null ;;\n"
                      : "";
      }
    }
    cases += "    " + command->get_name() + ") options='" + joined(options, " ") + "' words='" +
             joined(argument_values(root, *command), " ") + "' ;;\n";
  }
  // bash takes --format=json for three words.
  return "_traintrace() {\n"
         "  local words= options= option= before= word=${COMP_WORDS[COMP_CWORD]}\n"
         "  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W '" +
         joined(names, " ") + " --help --version" +
         "' -- \"$word\"))\n    return\n  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  if [[ $word == = ]]; then\n    option=${COMP_WORDS[COMP_CWORD-1]} word=\n"
         "  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then\n"
         "    option=${COMP_WORDS[COMP_CWORD-2]}\n"
         "  elif [[ $word == -* ]]; then\n    words=$options\n"
         "  elif [[ ${COMP_WORDS[COMP_CWORD-1]} == -* ]]; then\n"
         "    option=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  elif ((COMP_CWORD > 2)); then\n    words=\n  fi\n"
         "  case \"${COMP_WORDS[1]} $option\" in\n" +
         values +
         "    *' -'*) words= ;;\n"
         "  esac\n"
         "  if [[ $word == *,* ]]; then\n    before=${word%,*}, word=${word##*,}\n  fi\n"
         "  COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"$word\"))\n}\n"
         "complete -o default -F _traintrace traintrace\n";
}

namespace {

std::string zsh_values(const CLI::App& root, const CLI::Option& option) {
  const Words known = values_of(root, option);
  if (known.empty()) {
    const Files files = files_of(option);
    return files == Files::kAny ? "_files" : files == Files::kFolders ? "_files -/" : " ";
  }
  return name_of_value(option).ends_with(",..") ? "_values -s , value " + joined(known, " ")
                                                : "(" + joined(known, " ") + ")";
}

}  // namespace

std::string zsh_completion(const CLI::App& root) {
  constexpr std::string_view kEscaped = "[]:\\";
  std::string names;
  std::string cases;
  for (const CLI::App* command : commands_of(root)) {
    names += "      " + quoted(command->get_name() + ":" + command->get_description()) + "\n";
    cases += "    " + command->get_name() + ")\n      _arguments";
    for (const CLI::Option* option : command->get_options()) {
      const std::string told = quoted(option->get_description(), kEscaped).substr(1);
      const std::string meaning = "[" + told.substr(0, told.size() - 1) + "]";
      for (const std::string& name : offered_names(*option)) {
        const bool flag = is_flag(*option);
        const std::string joint = flag ? "" : name.starts_with("--") ? "=" : "+";
        const std::string value = flag ? "" : ":value:" + zsh_values(root, *option);
        cases.append(" \\\n        '").append(name).append(joint).append(meaning);
        cases.append(value).append("'");
      }
    }
    const Words known = argument_values(root, *command);
    cases += (known.empty() ? "" : " \\\n        '1:value:(" + joined(known, " ") + ")'") +
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

namespace {

std::string fish_values(const CLI::App& root, const CLI::Option& option) {
  if (is_flag(option)) {
    return "";
  }
  const Words known = values_of(root, option);
  const Files files = files_of(option);
  return !known.empty()             ? " -x -a " + quoted(joined(known, " "))
         : files == Files::kFolders ? " -x -a '(__fish_complete_directories)'"
         : files == Files::kNone    ? " -x"
                                    : " -r";
}

}  // namespace

std::string fish_completion(const CLI::App& root) {
  std::string text;
  for (const CLI::App* command : commands_of(root)) {
    const std::string& name = command->get_name();
    text += "complete -c traintrace -f -n __fish_use_subcommand -a " + name + " -d " +
            quoted(command->get_description(), "\\") + "\n";
    const std::string of_command =
        "complete -c traintrace -n '__fish_seen_subcommand_from " + name + "'";
    for (const CLI::Option* option : command->get_options()) {
      std::string names;
      for (const std::string& word : offered_names(*option)) {
        names += word.starts_with("--") ? " -l " + word.substr(2) : " -s " + word.substr(1);
      }
      if (!names.empty()) {
        text += of_command + names + fish_values(root, *option) + " -d " +
                quoted(option->get_description(), "\\") + "\n";
      }
    }
    const Words known = argument_values(root, *command);
    text += known.empty() ? "" : of_command + " -a " + quoted(joined(known, " ")) + "\n";
  }
  return text;
}

}  // namespace traintrace
