// Code in the user's modules that is not the user's.
#pragma once

#include <string_view>

namespace traintrace {

// A header of the system, of the C++ library, of CUDA or of what is installed: its functions lie in
// the modules that use them.
bool is_library_header(std::string_view file);

}  // namespace traintrace
