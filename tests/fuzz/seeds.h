// What damage starts from: good inputs that use everything there is.
#pragma once

#include <string>
#include <vector>

namespace traintrace::fuzz {

std::string native_seed();
std::vector<std::string> text_seeds();   // docs/dump.md's examples and one with every kind of line
std::vector<std::string> text_pieces();  // lines and words to strew in

}  // namespace traintrace::fuzz
