// Completion of commands, options and their values, made from the declarations of the commands.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace traintrace {

std::string bash_completion(const CLI::App& root);
std::string zsh_completion(const CLI::App& root);
std::string fish_completion(const CLI::App& root);

}  // namespace traintrace
