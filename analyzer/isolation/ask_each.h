// The same question about several files, each of which may lie on a file server that is gone.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace traintrace {

struct AskLimits {
  std::chrono::milliseconds patience;  // with one of them
  int silent;                          // after so many that do not answer no other one is asked
};

// What `ask` returns of each of `names`, which a child finds out (answer_within.h).  One that does
// not answer in time is not in it.
std::map<std::string, std::string> ask_each(
    std::set<std::string> names, const AskLimits& limits,
    const std::function<std::string(const std::string& name)>& ask);

// Those of `names` that answer `ask`, which a child finds out, at once for so many files as may be
// silent: a part of a folder may lie on a server that is gone.  After some 400 that do not answer
// no other one is asked.
std::set<std::string> answering_among(const std::vector<std::string>& names,
                                      std::chrono::milliseconds patience,
                                      const std::function<void(const std::string& name)>& ask);

// Whether the file system that `path` is on answers within a second, whatever it says.  Its folder
// is asked once, for all threads.
bool answers_soon(const std::string& path);

}  // namespace traintrace
