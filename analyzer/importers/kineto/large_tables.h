// Large tables in little memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace traintrace::kineto {

// Once `part` of a file is read: room for the rows that the rest will have if it is alike.  A
// vector that grows by itself copies its rows, and has them twice meanwhile; room that is never
// used takes no memory.
template <class Row>
void make_room(std::vector<Row>& rows, double part) {
  constexpr size_t kSmall = size_t{1} << 16;
  constexpr double kMostTimes = 64;  // the first pieces may be unlike the rest
  constexpr double kSpare = 1.05;
  constexpr double kLeastTimes = 1.25;
  constexpr size_t kFew = 8;  // that part of the room
  const bool is_cheap = rows.size() < rows.capacity() / kFew;
  const bool is_full = rows.capacity() - rows.size() < kSmall;
  if (rows.size() < kSmall || part <= 0 || (!is_cheap && !is_full)) {
    return;
  }
  const auto size = static_cast<double>(rows.size());
  const double expected = std::min(size / part, size * kMostTimes);
  if (expected > static_cast<double>(rows.capacity())) {
    rows.reserve(static_cast<size_t>(std::max(expected * kSpare, size * kLeastTimes)));
  }
}

// Those of one time stay in their order.  A sort of the rows themselves would take half of their
// memory again, at the time when all of the trace is held.
template <class Row>
void sort_by_start(std::vector<Row>& rows) {
  const auto is_before = [](const Row& a, const Row& b) { return a.start_ns < b.start_ns; };
  if (std::is_sorted(rows.begin(), rows.end(), is_before)) {
    return;
  }
  std::vector<uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return is_before(rows[a], rows[b]); });
  for (uint32_t first = 0; first < order.size(); ++first) {  // one cycle of the permutation
    const Row saved = rows[first];
    uint32_t to = first;
    for (uint32_t from = order[to]; from != first; from = order[to]) {
      rows[to] = rows[from];
      order[to] = to;
      to = from;
    }
    rows[to] = saved;
    order[to] = to;
  }
}

}  // namespace traintrace::kineto
