// How `--help` looks: lines that fit the terminal, and no types where a name says enough.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace traintrace {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_footer(const CLI::App* app) const override;
};

}  // namespace traintrace
