// What may never come back: a folder of a file server that is gone.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace traintrace {

struct Answer {
  std::string text;                                     // what was said in time
  bool whole = false;                                   // all of it
  std::chrono::steady_clock::duration silent_for = {};  // at its end
};

using Say = std::function<void(std::string_view)>;

// A child of its own asks: a process of which a thread is inside the kernel for good cannot end.
Answer answer_within(std::chrono::milliseconds limit, const std::function<void(const Say&)>& ask);

}  // namespace traintrace
