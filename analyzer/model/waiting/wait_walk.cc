#include "analyzer/model/waiting/wait_walk.h"

#include <algorithm>

namespace traintrace {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

// Tarjan's, without recursion: chains of ranks are as long as the job is large.
class Components {
 public:
  explicit Components(const std::vector<std::vector<uint32_t>>& next)
      : next_(next), number_(next.size()), low_(next.size()), component_(next.size(), kNone) {
    for (uint32_t i = 0; i < next.size(); ++i) {
      if (number_[i] == 0) {
        walk(i);
      }
    }
  }

  std::vector<std::vector<uint32_t>> ends() const {
    std::vector<bool> leads_on(found_.size(), false);
    for (size_t i = 0; i < next_.size(); ++i) {
      for (const uint32_t to : next_[i]) {
        leads_on[component_[i]] = leads_on[component_[i]] || component_[to] != component_[i];
      }
    }
    std::vector<std::vector<uint32_t>> ends;
    for (size_t i = 0; i < found_.size(); ++i) {
      if (!leads_on[i]) {
        ends.push_back(found_[i]);
      }
    }
    return ends;
  }

 private:
  struct Step {
    uint32_t vertex;
    size_t edge = 0;
  };

  void enter(uint32_t vertex) {
    number_[vertex] = low_[vertex] = ++count_;
    open_.push_back(vertex);
    steps_.push_back({vertex});
  }

  void walk(uint32_t start) {
    enter(start);
    while (!steps_.empty()) {
      Step& step = steps_.back();
      const uint32_t vertex = step.vertex;
      if (step.edge < next_[vertex].size()) {
        const uint32_t to = next_[vertex][step.edge++];
        if (number_[to] == 0) {
          enter(to);
        } else if (component_[to] == kNone) {
          low_[vertex] = std::min(low_[vertex], number_[to]);
        }
        continue;
      }
      steps_.pop_back();
      if (!steps_.empty()) {
        low_[steps_.back().vertex] = std::min(low_[steps_.back().vertex], low_[vertex]);
      }
      if (low_[vertex] == number_[vertex]) {
        close(vertex);
      }
    }
  }

  void close(uint32_t root) {
    std::vector<uint32_t>& vertices = found_.emplace_back();
    uint32_t vertex = kNone;
    while (vertex != root) {
      vertex = open_.back();
      open_.pop_back();
      component_[vertex] = static_cast<uint32_t>(found_.size() - 1);
      vertices.push_back(vertex);
    }
  }

  const std::vector<std::vector<uint32_t>>& next_;
  std::vector<uint32_t> number_, low_, component_;
  uint32_t count_ = 0;
  std::vector<uint32_t> open_;
  std::vector<Step> steps_;
  std::vector<std::vector<uint32_t>> found_;
};

}  // namespace

WaitWalk::WaitWalk(const Ranks& ranks, const std::vector<Wait>& waits)
    : ranks_(ranks), next_(ranks.size() + waits.size()), before_(next_.size()) {
  const auto connect = [&](Vertex from, Vertex to) {
    if (from != kNone && to != kNone) {
      next_[from].push_back(to);
      before_[to].push_back(from);
    }
  };
  for (size_t i = 0; i < waits.size(); ++i) {
    const auto wait = static_cast<Vertex>(ranks.size() + i);
    for (const Waiter& waiter : waits[i].waiters) {
      connect(vertex_of(waiter.rank), wait);
    }
    for (const Awaited& awaited : waits[i].awaited) {
      connect(wait, vertex_of(awaited.rank));
    }
  }
}

WaitWalk::Vertex WaitWalk::vertex_of(Rank rank) const {
  const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  return at != ranks_.end() && *at == rank ? static_cast<Vertex>(at - ranks_.begin()) : kNone;
}

std::vector<Ranks> WaitWalk::ends() const {
  std::vector<Ranks> ends;
  for (const std::vector<Vertex>& vertices : Components(next_).ends()) {
    Ranks ranks;
    for (const Vertex vertex : vertices) {
      if (vertex < ranks_.size()) {
        ranks.push_back(ranks_[vertex]);
      }
    }
    std::sort(ranks.begin(), ranks.end());
    if (!ranks.empty()) {
      ends.push_back(std::move(ranks));
    }
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

Ranks WaitWalk::all_before(const Ranks& roots) const {
  std::vector<bool> seen(next_.size(), false);
  std::vector<Vertex> open;
  const auto enter = [&](Vertex vertex) {
    if (vertex != kNone && !seen[vertex]) {
      seen[vertex] = true;
      open.push_back(vertex);
    }
  };
  for (const Rank rank : roots) {
    enter(vertex_of(rank));
  }
  while (!open.empty()) {
    const Vertex vertex = open.back();
    open.pop_back();
    for (const Vertex from : before_[vertex]) {
      enter(from);
    }
  }
  Ranks found;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (seen[i] && !contains(roots, ranks_[i])) {
      found.push_back(ranks_[i]);
    }
  }
  return found;
}

// Takes away what leads nowhere until nothing does.
bool WaitWalk::is_free_of_cycles(const std::vector<bool>& among) const {
  std::vector<size_t> left(next_.size(), 0);
  std::vector<Vertex> open;
  size_t size = 0;
  for (Vertex i = 0; i < next_.size(); ++i) {
    if (among[i]) {
      ++size;
      left[i] = static_cast<size_t>(
          std::count_if(next_[i].begin(), next_[i].end(), [&](Vertex to) { return among[to]; }));
      if (left[i] == 0) {
        open.push_back(i);
      }
    }
  }
  while (!open.empty()) {
    const Vertex vertex = open.back();
    open.pop_back();
    --size;
    for (const Vertex from : before_[vertex]) {
      if (among[from] && --left[from] == 0) {
        open.push_back(from);
      }
    }
  }
  return size == 0;
}

bool WaitWalk::has_cycles() const {
  return !is_free_of_cycles(std::vector<bool>(next_.size(), true));
}

bool WaitWalk::frees_all(const Ranks& cycle, Rank rank) const {
  std::vector<bool> among(next_.size(), true);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    among[i] = ranks_[i] != rank && contains(cycle, ranks_[i]);
  }
  return is_free_of_cycles(among);
}

// Ranks of one way around within `cycle`, an end of several ranks: from there every way leads on.
Ranks WaitWalk::one_way_around(const Ranks& cycle) const {
  std::vector<Vertex> way = {vertex_of(cycle.front())};
  std::vector<bool> seen(next_.size(), false);
  while (!seen[way.back()]) {
    seen[way.back()] = true;
    way.push_back(next_[way.back()].front());
  }
  Ranks ranks;
  const auto start = std::find(way.begin(), way.end(), way.back());
  std::for_each(start, way.end() - 1, [&](Vertex vertex) {
    if (vertex < ranks_.size()) {
      insert(ranks, ranks_[vertex]);
    }
  });
  return ranks;
}

Ranks WaitWalk::repairs_of(const Ranks& cycle) const {
  // Who frees all of it lies on each way around: one is enough to look at.
  Ranks repairs = one_way_around(cycle);
  std::erase_if(repairs, [&](Rank rank) { return !frees_all(cycle, rank); });
  return repairs;
}

Rank WaitWalk::repair_of(const Ranks& cycle) const {
  const Ranks repairs = repairs_of(cycle);
  return repairs.size() == 1 ? repairs.front() : Rank();
}

}  // namespace traintrace
