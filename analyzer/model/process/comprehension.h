// Frames of Python's comprehensions.
#pragma once

#include <string_view>

namespace traintrace {

// "activations.<locals>.<listcomp>": to Python 3.11 a frame of its own, inside that of the function
// in which it stands.
inline bool is_comprehension(std::string_view function) {
  const size_t last = function.rfind('.');
  const std::string_view name = last == function.npos ? function : function.substr(last + 1);
  return name == "<listcomp>" || name == "<genexpr>" || name == "<dictcomp>" || name == "<setcomp>";
}

}  // namespace traintrace
