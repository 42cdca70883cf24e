// How long a demangled name may get.  Substitutions and template parameters repeat what was written
// once: 300 bytes can stand for gigabytes, and __cxa_demangle takes no limit.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace traintrace {

// About as many characters as __cxa_demangle would make of that name (Itanium C++ ABI, "_Z..");
// rather more than fewer.  Nothing: a part of it is not understood here, or it is nested too deep.
std::optional<size_t> demangled_size(std::string_view name);

}  // namespace traintrace
