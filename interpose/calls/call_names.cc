#include "interpose/calls/call_names.h"

#include <cstring>

#include "format/schema.h"
#include "interpose/life/settings.h"

namespace traintrace {
namespace {

bool matches_a_call(const char* pattern) {
  for (size_t id = 0; id < format::kCallCount + format::kMomentCount; ++id) {
    if (matches_any(pattern, call_name(id))) {
      return true;
    }
  }
  return false;
}

}  // namespace

const char* call_name(size_t id) noexcept {
  return id < format::kCallCount ? format::kCalls[id].name
                                 : format::kMoments[id - format::kCallCount].name;
}

void name_unmatched(const char* patterns, Text& into) noexcept {
  bool any = false;
  for (const char* begin = patterns;;) {
    const char* const end = strchrnul(begin, ',');
    ShortText pattern;
    pattern.append(begin, static_cast<size_t>(end - begin));
    any = any || pattern.length() != 0;
    if (pattern.length() && pattern.whole() && !matches_a_call(pattern.c_str())) {
      into << (into.length() == 0 ? "" : ",") << pattern.c_str();
    }
    if (!*end) {
      into << (any ? "" : patterns);
      return;
    }
    begin = end + 1;
  }
}

}  // namespace traintrace
