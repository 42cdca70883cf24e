#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/unit/model/case_text.h"
#include "tests/unit/model/families.h"

namespace traintrace {
namespace {

constexpr int kSteps = 3;  // that are in order before the fault
constexpr const char* kNames[] = {"tp", "dp", "pp"};

// Ranks in three dimensions, tensor parallel ones side by side.
struct Grid {
  std::array<int, 3> sizes;

  int ranks() const { return sizes[0] * sizes[1] * sizes[2]; }
  int stride(size_t dimension) const {
    return dimension == 0 ? 1 : dimension == 1 ? sizes[0] : sizes[0] * sizes[1];
  }
  // Those that differ from it in that dimension only.
  Ranks line_of(int rank, size_t dimension) const {
    const int first = rank - rank / stride(dimension) % sizes[dimension] * stride(dimension);
    Ranks line;
    for (int i = 0; i < sizes[dimension]; ++i) {
      line.push_back({first + i * stride(dimension)});
    }
    return line;
  }
  std::string name(int rank, size_t dimension) const {
    return fmt::format("{}{}", kNames[dimension], line_of(rank, dimension).front().value);
  }
};

Text text_of(const Grid& grid) {
  Text text(grid.ranks());
  for (size_t dimension = 0; dimension < 3; ++dimension) {
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      const Ranks line = grid.line_of(rank, dimension);
      if (line.front().value == rank) {
        text.line(
            fmt::format("communicator {} members={}", grid.name(rank, dimension), rank_list(line)));
      }
    }
  }
  return text;
}

void call(Text& text, const Grid& grid, const Ranks& who, const char* verb, size_t dimension,
          double time) {
  for (const Rank rank : who) {
    text.call({rank}, verb,
              {"ncclAllReduce", fmt::format("count={} stream=0x{}", 64 << dimension, dimension + 3),
               fmt::format("train.py:{}:{}", 10 + dimension, kNames[dimension])},
              time, grid.name(rank.value, dimension));
  }
}

void steps_in_order(Text& text, const Grid& grid) {
  for (int step = 0; step < kSteps; ++step) {
    for (size_t dimension = 0; dimension < 3; ++dimension) {
      call(text, grid, all_but(grid.ranks(), -1), "calls", dimension,
           1 + step + 0.1 * static_cast<double>(dimension));
    }
  }
}

std::string words(const Grid& grid) {
  return fmt::format("{} x {} x {}", grid.sizes[0], grid.sizes[1], grid.sizes[2]);
}

using Order = std::vector<size_t>;  // dimensions, as a rank has them in its step

// How many of them each rank gets through.
std::vector<size_t> passed_of(const Grid& grid, const std::vector<Order>& orders) {
  std::vector<size_t> passed(orders.size());
  const auto is_at = [&](Rank rank, size_t dimension) {
    const auto at = static_cast<size_t>(rank.value);
    return passed[at] < orders[at].size() && orders[at][passed[at]] == dimension;
  };
  for (bool news = true; news;) {
    news = false;
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      for (size_t dimension = 0; dimension < 3; ++dimension) {
        const Ranks line = grid.line_of(rank, dimension);
        if (std::all_of(line.begin(), line.end(),
                        [&](Rank other) { return is_at(other, dimension); })) {
          for (const Rank other : line) {
            ++passed[static_cast<size_t>(other.value)];
          }
          news = true;
        }
      }
    }
  }
  return passed;
}

// A step in which ranks have those orders, as far as it gets.
void put_step(Text& text, const Grid& grid, const std::vector<Order>& orders) {
  const std::vector<size_t> passed = passed_of(grid, orders);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const Order& order = orders[static_cast<size_t>(rank)];
    const size_t done = passed[static_cast<size_t>(rank)];
    for (size_t i = 0; i < std::min(done + 1, order.size()); ++i) {
      call(text, grid, {{rank}}, i < done ? "calls" : "enters", order[i],
           9 + 0.1 * static_cast<double>(i));
    }
  }
}

std::vector<Order> usual(const Grid& grid) {
  std::vector<Order> orders;
  orders.assign(static_cast<size_t>(grid.ranks()), Order{0, 1, 2});
  return orders;
}

// Has two dimensions the other way round.
void turn(std::vector<Order>& orders, int rank, size_t a, size_t b) {
  Order& order = orders[static_cast<size_t>(rank)];
  std::iter_swap(std::find(order.begin(), order.end(), a),
                 std::find(order.begin(), order.end(), b));
}

// Two ranks at opposite corners of a square have it the other way round than the two between them:
// each of the four is in another line.
FamilyCase cycle(const Grid& grid, int corner, size_t a, size_t b) {
  const int next = grid.line_of(corner, a)[1].value;
  const int last = grid.line_of(corner, b)[1].value;
  FamilyCase one;
  one.family = "order on grids";
  one.name = fmt::format("{}: ranks {} and {} have {} before {}", words(grid), next, last,
                         kNames[b], kNames[a]);
  one.code = "collective.cross-communicator-deadlock";
  one.sequence = kSteps + 1;
  one.culprits = {{std::min(next, last)}, {std::max(next, last)}};  // the steps before tell
  std::vector<Order> orders = usual(grid);
  turn(orders, next, a, b);
  turn(orders, last, a, b);
  Text text = text_of(grid);
  steps_in_order(text, grid);
  put_step(text, grid, orders);
  one.text = text.str();
  return one;
}

// One rank alone has another order: that drains.
FamilyCase drains(const Grid& grid, int rank, size_t a, size_t b) {
  FamilyCase one;
  one.family = "orders that drain";
  one.name = fmt::format("{}: rank {} has {} before {}", words(grid), rank, kNames[b], kNames[a]);
  std::vector<Order> orders = usual(grid);
  turn(orders, rank, a, b);
  Text text = text_of(grid);
  steps_in_order(text, grid);
  put_step(text, grid, orders);
  text.line(fmt::format("+12 {} exits", rank_list(all_but(grid.ranks(), -1))));
  one.text = text.str();
  return one;
}

// One rank never comes: whoever is behind it, in whatever dimension, is a victim.
FamilyCase missing(const Grid& grid, int culprit) {
  FamilyCase one;
  one.family = "missing on grids";
  one.name = fmt::format("{}: rank {}", words(grid), culprit);
  one.code = "collective.missing-rank";
  one.sequence = kSteps + 1;
  one.culprits = {{culprit}};
  std::vector<Order> orders = usual(grid);
  orders[static_cast<size_t>(culprit)].clear();
  Text text = text_of(grid);
  steps_in_order(text, grid);
  put_step(text, grid, orders);
  text.line(fmt::format("+9 {} polls cudaStreamQuery @mining.py:41:hard_examples", culprit));
  one.text = text.str();
  return one;
}

FamilyCase healthy(const Grid& grid) {
  FamilyCase one;
  one.family = "grids in order";
  one.name = words(grid);
  Text text = text_of(grid);
  steps_in_order(text, grid);
  text.line(fmt::format("+9 {} exits", rank_list(all_but(grid.ranks(), -1))));
  one.text = text.str();
  return one;
}

}  // namespace

std::vector<FamilyCase> grid_families() {
  std::vector<FamilyCase> cases;
  constexpr std::pair<size_t, size_t> kPairs[] = {{0, 1}, {0, 2}, {1, 2}};
  for (const Grid& grid : {Grid{{2, 2, 2}}, Grid{{4, 2, 2}}, Grid{{2, 3, 4}}}) {
    for (const int rank : culprits_of(grid.ranks())) {
      for (const auto& [a, b] : kPairs) {
        cases.push_back(drains(grid, rank, a, b));
        const bool is_corner = grid.line_of(rank, a).front() == Rank{rank} &&
                               grid.line_of(rank, b).front() == Rank{rank};
        if (is_corner) {
          cases.push_back(cycle(grid, rank, a, b));
        }
      }
      cases.push_back(missing(grid, rank));
    }
    cases.push_back(healthy(grid));
  }
  return cases;
}

}  // namespace traintrace
