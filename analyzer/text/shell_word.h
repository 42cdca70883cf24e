// Lines to type.
#pragma once

#include <string>

namespace traintrace {

// As a word of a shell command.
std::string shell_word(const std::string& word);

}  // namespace traintrace
