#include "analyzer/importers/kineto/enclosing.h"

#include <limits>
#include <utility>

namespace traintrace {
namespace {

// A thread since its last call.
class OwnTime {
 public:
  void begins(const Range& range) {
    advance(range.span.begin_ns);
    open_.push_back(&range);
  }

  uint32_t calls(const HostCall& call) {
    advance(call.start_ns);
    std::sort(times_.begin(), times_.end());
    uint32_t most = kNoName;
    int64_t most_ns = 0;
    for (auto begin = times_.begin(); begin != times_.end();) {
      int64_t ns = 0;
      const uint32_t what = begin->first;
      for (; begin != times_.end() && begin->first == what; ++begin) {
        ns += begin->second;
      }
      most = ns > most_ns ? what : most;
      most_ns = std::max(most_ns, ns);
    }
    times_.clear();
    until_ns_ = std::max(until_ns_, call.end_ns);
    return most;
  }

 private:
  void advance(int64_t now_ns) {
    while (!open_.empty() && open_.back()->span.end_ns <= now_ns) {
      spend(open_.back()->span.end_ns);
      open_.pop_back();
    }
    spend(now_ns);
  }

  // In the innermost, until then.
  void spend(int64_t until_ns) {
    if (until_ns <= until_ns_) {
      return;
    }
    if (!open_.empty()) {
      const Range& innermost = *open_.back();
      times_.emplace_back(innermost.what, until_ns - std::max(until_ns_, innermost.span.begin_ns));
    }
    until_ns_ = until_ns;
  }

  std::vector<const Range*> open_;                   // innermost last
  std::vector<std::pair<uint32_t, int64_t>> times_;  // what, and how long
  int64_t until_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace

std::vector<uint32_t> spent_in(const std::vector<Range>& ranges, size_t threads,
                               const std::vector<HostCall>& calls) {
  std::vector<OwnTime> own(threads);
  std::vector<uint32_t> result;
  result.reserve(calls.size());
  auto next = ranges.begin();
  for (const HostCall& call : calls) {
    for (; next != ranges.end() && next->span.begin_ns <= call.start_ns; ++next) {
      own[next->thread].begins(*next);
    }
    result.push_back(own[call.thread].calls(call));
  }
  return result;
}

}  // namespace traintrace
