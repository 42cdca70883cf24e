#include "analyzer/importers/kineto/enclosing.h"

#include <algorithm>
#include <utility>

#include "analyzer/importers/kineto/large_tables.h"

namespace traintrace {
namespace {

// A thread since its last call.
class OwnTime {
 public:
  void begins(const Range& range) {
    advance(range.span.begin_ns);
    open_.push_back(range);
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
    while (!open_.empty() && open_.back().span.end_ns <= now_ns) {
      spend(open_.back().span.end_ns);
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
      const Range& innermost = open_.back();
      times_.emplace_back(innermost.what, until_ns - std::max(until_ns_, innermost.span.begin_ns));
    }
    until_ns_ = until_ns;
  }

  std::vector<Range> open_;                          // innermost last
  std::vector<std::pair<uint32_t, int64_t>> times_;  // what, and how long
  int64_t until_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace

void Ranges::add(uint32_t thread, const Span& span, uint32_t what) {
  if (thread >= rows_.size()) {
    rows_.resize(thread + size_t{1});
  }
  const int64_t ns = span.end_ns - span.begin_ns;
  if (ns < int64_t{kLong}) {
    rows_[thread].push_back({span.begin_ns, static_cast<uint32_t>(ns), what});
    return;
  }
  rows_[thread].push_back({span.begin_ns, kLong, static_cast<uint32_t>(long_.size())});
  long_.push_back({span.end_ns, what});
}

void Ranges::make_room(double part) {
  for (std::vector<Row>& rows : rows_) {
    kineto::make_room(rows, part);
  }
}

void Ranges::sort() {
  const auto is_before = [&](const Row& a, const Row& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns
                                    : range_of(a).span.end_ns > range_of(b).span.end_ns;
  };
  for (std::vector<Row>& rows : rows_) {
    if (!std::is_sorted(rows.begin(), rows.end(), is_before)) {
      std::stable_sort(rows.begin(), rows.end(), is_before);
    }
  }
}

std::vector<uint32_t> spent_in(const Ranges& ranges, const std::vector<HostCall>& calls) {
  std::vector<OwnTime> own(ranges.threads());
  std::vector<size_t> next(ranges.threads());
  std::vector<uint32_t> result;
  result.reserve(calls.size());
  for (const HostCall& call : calls) {
    if (call.thread >= own.size()) {
      result.push_back(kNoName);
      continue;
    }
    for (size_t& index = next[call.thread]; index < ranges.size(call.thread); ++index) {
      const Range range = ranges.at(call.thread, index);
      if (range.span.begin_ns > call.start_ns) {
        break;
      }
      own[call.thread].begins(range);
    }
    result.push_back(own[call.thread].calls(call));
  }
  return result;
}

}  // namespace traintrace
