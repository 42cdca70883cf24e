// traintrace help [COMMAND]
#include <fmt/format.h>

#include <memory>

#include "analyzer/commands/command.h"
#include "analyzer/commands/help/completions.h"
#include "analyzer/commands/help/examples.h"
#include "analyzer/commands/help/manual.h"
#include "analyzer/text/nearest.h"

namespace traintrace {
namespace {

std::string overview() {
  std::string text =
      "traintrace: why a training job hangs, runs out of memory or runs slow\n\n"
      "Where a launcher cannot be changed to call `traintrace run`: set\n"
      "LD_PRELOAD=/full/path/to/libtraintrace.so in its environment.\n\n"
      "Commands\n";
  for (const Command& command : commands()) {
    text += fmt::format("  {:<10} {}\n", command.name, command.summary);
  }
  return text + "\n" + usage_notes("") +
         "\n\n`traintrace help COMMAND` explains a command, `traintrace --version` prints the "
         "version.\n";
}

int help(const CLI::App& root, const std::string& name) {
  if (name.empty()) {
    return print(overview());
  }
  const auto found =
      root.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  std::vector<std::string> names;
  for (const Command& known : commands()) {
    names.emplace_back(known.name);
  }
  if (found.empty()) {
    return fail("there is no command '" + name + "'" + did_you_mean(name, names));
  }
  return print(found[0]->help("traintrace"));
}

}  // namespace

void declare_help(CLI::App& command, Invocation& invocation) {
  auto name = std::make_shared<std::string>();
  auto man = std::make_shared<bool>(false);
  auto bash = std::make_shared<bool>(false);
  auto zsh = std::make_shared<bool>(false);
  auto fish = std::make_shared<bool>(false);
  command.add_option("COMMAND", *name, "the command to explain");
  command.add_flag("--man", *man, "print the manual page, for man -l");
  command.add_flag("--bash-completion", *bash,
                   "print completions of commands, options and values for bash");
  command.add_flag("--zsh-completion", *zsh, "the same for zsh");
  command.add_flag("--fish-completion", *fish, "the same for fish");
  command.callback([&command, name, man, bash, zsh, fish, &invocation] {
    const CLI::App& root = *command.get_parent();
    invocation.status = *man    ? print(man_page(root))
                        : *bash ? print(bash_completion(root))
                        : *zsh  ? print(zsh_completion(root))
                        : *fish ? print(fish_completion(root))
                                : help(root, *name);
  });
}

}  // namespace traintrace
