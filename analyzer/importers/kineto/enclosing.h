// What stands around a call on its thread: frames, operators.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct Range {
  Span span;
  uint32_t thread;
  uint32_t what;  // whatever the caller means by it
};

// Outer ones first.
inline void sort_ranges(std::vector<Range>& ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.span.begin_ns != b.span.begin_ns ? a.span.begin_ns < b.span.begin_ns
                                              : a.span.end_ns > b.span.end_ns;
  });
}

// The ranges open on each thread while time goes on.
class OpenRanges {
 public:
  explicit OpenRanges(size_t threads) : open_(threads) {}

  // Those that `time_ns` has reached and that enclose it; innermost last.
  std::vector<const Range*>& at(uint32_t thread, int64_t time_ns) {
    std::vector<const Range*>& stack = open_[thread];
    while (!stack.empty() && stack.back()->span.end_ns <= time_ns) {
      stack.pop_back();
    }
    return stack;
  }

 private:
  std::vector<std::vector<const Range*>> open_;
};

// `ranges` sorted, `calls` by start; visits each call with the innermost range around its start,
// null where there is none.
template <class Calls, class Visit>
void visit_innermost(const std::vector<Range>& ranges, size_t threads, Calls& calls,
                     const Visit& visit) {
  OpenRanges open(threads);
  auto next = ranges.begin();
  for (auto& call : calls) {
    for (; next != ranges.end() && next->span.begin_ns <= call.start_ns; ++next) {
      open.at(next->thread, next->span.begin_ns).push_back(&*next);
    }
    const std::vector<const Range*>& stack = open.at(call.thread, call.start_ns);
    visit(call, stack.empty() ? nullptr : stack.back());
  }
}

// `ranges` sorted, `calls` by start: of each, that range in which its thread was, as the innermost,
// for most of the time since its call before; kNoName: in none.
std::vector<uint32_t> spent_in(const std::vector<Range>& ranges, size_t threads,
                               const std::vector<HostCall>& calls);

}  // namespace traintrace
