#include "analyzer/timeline/spans.h"

#include <algorithm>

namespace traintrace {

Spans united(std::vector<Span> spans) {
  std::erase_if(spans, [](const Span& span) { return span.end_ns <= span.begin_ns; });
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  Spans result;
  for (const Span& span : spans) {
    if (!result.empty() && span.begin_ns <= result.back().end_ns) {
      result.back().end_ns = std::max(result.back().end_ns, span.end_ns);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

Spans united(const Spans& a, const Spans& b) {
  std::vector<Span> all(a);
  all.insert(all.end(), b.begin(), b.end());
  return united(std::move(all));
}

int64_t length_ns(const Spans& spans) {
  int64_t sum = 0;
  for (const Span& span : spans) {
    sum += span.end_ns - span.begin_ns;
  }
  return sum;
}

Spans common(const Spans& a, const Spans& b) {
  Spans result;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    const Span both = {std::max(x->begin_ns, y->begin_ns), std::min(x->end_ns, y->end_ns)};
    if (both.begin_ns < both.end_ns) {
      result.push_back(both);
    }
    (x->end_ns < y->end_ns ? x : y)++;
  }
  return result;
}

Spans difference(const Spans& a, const Spans& b) {
  Spans result;
  auto y = b.begin();
  for (Span rest : a) {
    for (; y != b.end() && y->begin_ns < rest.end_ns; ++y) {
      if (y->begin_ns > rest.begin_ns) {
        result.push_back({rest.begin_ns, y->begin_ns});
      }
      rest.begin_ns = std::max(rest.begin_ns, y->end_ns);
      if (rest.begin_ns >= rest.end_ns) {
        break;  // it may cover the next one too
      }
    }
    if (rest.begin_ns < rest.end_ns) {
      result.push_back(rest);
    }
  }
  return result;
}

Spans within(const Spans& spans, const Span& window) {
  Spans result;
  auto at = std::upper_bound(spans.begin(), spans.end(), window.begin_ns,
                             [](int64_t begin, const Span& span) { return begin < span.end_ns; });
  for (; at != spans.end() && at->begin_ns < window.end_ns; ++at) {
    result.push_back(
        {std::max(at->begin_ns, window.begin_ns), std::min(at->end_ns, window.end_ns)});
  }
  return result;
}

int64_t common_ns(const Spans& a, const Spans& b) {
  int64_t sum = 0;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    sum +=
        std::max<int64_t>(0, std::min(x->end_ns, y->end_ns) - std::max(x->begin_ns, y->begin_ns));
    (x->end_ns < y->end_ns ? x : y)++;
  }
  return sum;
}

}  // namespace traintrace
