// What stands around a call on its thread: frames, operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

struct Range {
  Span span;
  uint32_t what;  // whatever the caller means by it
};

// Ranges by thread.  A profile has more of them than of anything else, so a row is small: of most
// ranges the length takes 4 bytes, the few that last longer stand elsewhere.
class Ranges {
 public:
  void add(uint32_t thread, const Span& span, uint32_t what);
  // As large_tables.h says it.
  void make_room(double part);
  // Outer ones first, on each thread.
  void sort();
  bool empty() const { return rows_.empty(); }
  size_t threads() const { return rows_.size(); }
  size_t size(uint32_t thread) const {
    return thread < rows_.size() ? rows_[thread].size() : size_t{0};
  }
  Range at(uint32_t thread, size_t index) const { return range_of(rows_[thread][index]); }

 private:
  static constexpr auto kLong = std::numeric_limits<uint32_t>::max();
  struct Row {
    int64_t begin_ns;
    uint32_t ns;  // kLong: `what` is an index of long_
    uint32_t what;
  };
  struct Long {
    int64_t end_ns;
    uint32_t what;
  };
  Range range_of(const Row& row) const {
    return row.ns == kLong ? Range{{row.begin_ns, long_[row.what].end_ns}, long_[row.what].what}
                           : Range{{row.begin_ns, row.begin_ns + row.ns}, row.what};
  }

  std::vector<std::vector<Row>> rows_;  // by thread
  std::vector<Long> long_;
};

// The ranges open on each thread while time goes on.  `ranges` sorted.
class OpenRanges {
 public:
  explicit OpenRanges(const Ranges& ranges) : ranges_(ranges), threads_(ranges.threads()) {}

  // Goes on to `time_ns` on that thread, and tells `began` of each range that begins until then.
  template <class Began>
  void advance(uint32_t thread, int64_t time_ns, const Began& began) {
    if (thread >= threads_.size()) {
      return;
    }
    Thread& now = threads_[thread];
    for (const size_t size = ranges_.size(thread); now.next < size; ++now.next) {
      const Range range = ranges_.at(thread, now.next);
      if (range.span.begin_ns > time_ns) {
        break;
      }
      close(now.open, range.span.begin_ns);
      began(range);
      now.open.push_back(range);
    }
    close(now.open, time_ns);
  }
  // Null: the thread is in none.
  const Range* innermost(uint32_t thread) const {
    return thread >= threads_.size() || threads_[thread].open.empty()
               ? nullptr
               : &threads_[thread].open.back();
  }

 private:
  struct Thread {
    size_t next = 0;
    std::vector<Range> open;
  };
  static void close(std::vector<Range>& open, int64_t time_ns) {
    while (!open.empty() && open.back().span.end_ns <= time_ns) {
      open.pop_back();
    }
  }

  const Ranges& ranges_;
  std::vector<Thread> threads_;
};

// `ranges` sorted, `calls` by start; visits each call with the innermost range around its start,
// null where there is none.
template <class Calls, class Visit>
void visit_innermost(const Ranges& ranges, Calls& calls, const Visit& visit) {
  OpenRanges open(ranges);
  for (auto& call : calls) {
    open.advance(call.thread, call.start_ns, [](const Range&) {});
    visit(call, open.innermost(call.thread));
  }
}

// `ranges` sorted, `calls` by start: of each, that range in which its thread was, as the innermost,
// for most of the time since its call before; kNoName: in none.
std::vector<uint32_t> spent_in(const Ranges& ranges, const std::vector<HostCall>& calls);

}  // namespace traintrace
