// What is installed beside the program, made from the same declarations of commands and options.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace traintrace {

std::string man_page(const CLI::App& root);  // roff

}  // namespace traintrace
