#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <sstream>

#include "analyzer/commands/command.h"
#include "analyzer/commands/help/examples.h"
#include "analyzer/commands/help/help_format.h"
#include "analyzer/live/in_time.h"
#include "analyzer/symbols/debuginfod.h"
#include "analyzer/text/nearest.h"

namespace traintrace {
namespace {

// One line about words that no command or option is called.
int complain(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  const std::string word = extras.empty() ? "" : extras[0].substr(0, extras[0].find('='));
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  std::vector<std::string> known;
  if (chosen.empty() && !word.starts_with("-")) {
    for (const Command& command : commands()) {
      known.emplace_back(command.name);
    }
    known.insert(known.end(), {"record", "--version"});
    return fail("there is no command '" + word + "'" + did_you_mean(word, known));
  }
  const CLI::App& command = chosen.empty() ? app : *chosen[0];
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      known.push_back("--" + name);
    }
  }
  const std::string what =
      word.starts_with("-") ? " has no option " : " takes no more arguments, found ";
  return fail((chosen.empty() ? "traintrace" : command.get_name()) + what + word +
              did_you_mean(word, known));
}

// "--by: rnak not in {call,rank}", "--output: 1 required TEXT missing", as CLI11 says it.
std::string in_our_words(const std::string& message, const std::string& command) {
  constexpr std::string_view kRequired = " is required";
  if (message.ends_with(kRequired)) {
    return command + " needs " + message.substr(0, message.size() - kRequired.size()) +
           "; see `traintrace help " + command + "`";
  }
  constexpr std::string_view kNotIn = " not in {";
  constexpr std::string_view kMissing = ": 1 required ";
  const size_t colon = message.find(": ");
  const size_t set = message.rfind(kNotIn);
  if (message.find(kMissing) == colon && colon != message.npos && message.ends_with(" missing")) {
    return message.substr(0, colon) + " needs a value";
  }
  if (colon == message.npos || set == message.npos || set < colon || !message.ends_with('}')) {
    return message;
  }
  std::string values = message.substr(set + kNotIn.size());
  values.pop_back();
  std::vector<std::string> known;
  std::istringstream rest(values);
  for (std::string value; std::getline(rest, value, ',');) {
    known.push_back(value);
  }
  const std::string word = message.substr(colon + 2, set - colon - 2);
  std::string all;
  for (const std::string& value : known) {
    all += (all.empty() ? "" : ", ") + value;
  }
  return message.substr(0, colon) + (message.starts_with("--") ? "=" : " ") + word +
         " is none of " + all + did_you_mean(word, known);
}

void cut_at_dashes(std::vector<std::string>& words, Invocation& invocation) {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes != words.end()) {
    invocation.dashes = true;
    invocation.behind_dashes.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
}

// `traintrace --color=never analyze`, too.
void put_command_first(std::vector<std::string>& words) {
  constexpr std::string_view kValues[] = {"auto", "always", "never"};
  const bool apart =
      words[0] == "--color" && words.size() > 1 &&
      std::find(std::begin(kValues), std::end(kValues), words[1]) != std::end(kValues);
  const size_t options = apart ? 2 : words[0].starts_with("--color=") ? 1 : 0;
  if (options != 0 && words.size() > options) {
    std::rotate(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(options),
                words.begin() + static_cast<std::ptrdiff_t>(options) + 1);
  }
}

int run_command(int argc, char** argv) {
  CLI::App app("why a training job hangs, runs out of memory or runs slow", "traintrace");
  app.set_version_flag("-V,--version", "traintrace " TT_VERSION);
  app.formatter(std::make_shared<HelpFormat>());  // and so of all commands
  app.require_subcommand(0, 1);  // words after the first are arguments, whatever they are called
  Invocation invocation;
  for (const Command& command : commands()) {
    CLI::App& subcommand = *app.add_subcommand(command.name, command.summary);
    command.declare(subcommand, invocation);
    if (std::string_view(command.name) != "run") {
      add_color(subcommand);
    }
    const std::string own = subcommand.get_footer();
    subcommand.footer(own + (own.empty() ? "" : "\n\n") + usage_notes(command.name));
  }
  app.footer(usage_notes(""));  // not before: commands would have it, too
  if (argc < 2) {
    return fail("no command given; see `traintrace help`");
  }
  std::vector<std::string> words(argv + 1, argv + argc);
  put_command_first(words);
  if (words[0] == "record") {  // as other tools call it
    words[0] = "run";
  } else if (words[0] == "version") {
    words[0] = "--version";
  }
  if (words[0] == "run") {
    cut_at_dashes(words, invocation);  // and the program has the environment as it is
  } else {
    forbid_debuginfod();
  }
  const std::string command = words[0];
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ExtrasError&) {
    return complain(app);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return fail(in_our_words(error.what(), command));
  }
  return invocation.status;
}

}  // namespace
}  // namespace traintrace

int main(int argc, char** argv) {
  // What was freed is soon taken again: given back to the system, its pages would be cleared anew.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 4 << 20);
  std::signal(SIGPIPE, SIG_IGN);  // `traintrace dump | head` ends quietly, by EPIPE
  try {
    const int status = traintrace::run_command(argc, argv);
    if (traintrace::somebody_hangs()) {
      std::fflush(nullptr);
      std::_Exit(status);
    }
    return status;
  } catch (const std::exception& error) {  // out of memory, above all
    return traintrace::fail(error.what());
  }
}
