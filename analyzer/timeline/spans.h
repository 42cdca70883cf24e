// Sets of points in time, as disjoint half-open intervals in order.  Exact: integer ns.
#pragma once

#include <cstdint>
#include <vector>

namespace traintrace {

struct Span {
  int64_t begin_ns;
  int64_t end_ns;  // not included
  bool operator==(const Span&) const = default;
};

// Disjoint, in order, none empty, none touching the next.
using Spans = std::vector<Span>;

// Of any intervals, in any order; those that end before they begin count as empty.
Spans united(std::vector<Span> spans);
Spans united(const Spans& a, const Spans& b);
int64_t length_ns(const Spans& spans);
// What lies in both.
Spans common(const Spans& a, const Spans& b);
int64_t common_ns(const Spans& a, const Spans& b);
// What of `spans` lies in that window; quick where they are many.
Spans within(const Spans& spans, const Span& window);
// What lies in `a` and not in `b`.
Spans difference(const Spans& a, const Spans& b);

}  // namespace traintrace
