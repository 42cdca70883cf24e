// Words that switch something on or off, in letters of either case: no folder is called that.
#pragma once

#include <strings.h>

namespace traintrace::format {

inline bool is_one_of(const char* word, const char* const* words, int count) {
  for (int i = 0; i < count; ++i) {
    if (strcasecmp(word, words[i]) == 0) {
      return true;
    }
  }
  return false;
}

inline bool is_switched_off(const char* word) {
  constexpr const char* kWords[] = {"off", "no", "none", "false", "0"};
  return is_one_of(word, kWords, 5);
}

inline bool is_switch(const char* word) {
  constexpr const char* kWords[] = {"on", "yes", "true", "1"};
  return is_switched_off(word) || is_one_of(word, kWords, 4);
}

}  // namespace traintrace::format
