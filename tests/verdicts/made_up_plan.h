// What a made-up job does, drawn from a seed, the same on all ranks.  Tests name seeds that were
// once judged wrongly: what is drawn, and in which order, must stay.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

enum class Kind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kGroup,
  kRing,
  kPairs,
  kStreamSynchronize,
  kDeviceSynchronize,
  kAllocate,
  kCopy,
  kSleep,
  kEvent,
  kGraph,
  kQuery,
};
constexpr unsigned kKinds = 16;
constexpr unsigned kCollectives = 5;  // the first of them
constexpr int kTypes = 3;
constexpr int kReductions = 2;
constexpr int kSites = 8;

inline bool is_collective(Kind kind) {
  return static_cast<unsigned>(kind) < kCollectives;
}

struct Operation {
  Kind kind = Kind::kAllReduce;
  int axis = 0;
  int stream = 0;
  size_t count = 0;
  int root = 0;
  int type = 0;
  int reduction = 0;
  int site = 0;
  int times = 0;
  size_t graph = 0;
  bool by_mistake = false;  // then called from a line of its own
};

struct Split {
  int by = 0;  // nothing, the last bit of a rank, all other bits
  bool reversed = false;
};

struct Plan {
  std::vector<Split> splits;  // of the world, which is axis 0
  int streams = 0;
  std::vector<Operation> step;
  int steps = 0;
  int fault_step = 0;
  size_t fault_at = 0;  // in that step, a collective of the world
  bool finishes = false;
};

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  int below(size_t n) { return static_cast<int>(random_() % n); }

 private:
  std::mt19937 random_;
};

inline std::vector<Split> draw_splits(Draws& draws) {
  std::vector<Split> splits(draws.below(4));
  for (Split& split : splits) {
    split.by = draws.below(3);
    split.reversed = draws.below(2) == 0;
  }
  return splits;
}

inline Operation draw_operation(Draws& draws, bool first, const std::vector<int>& stream_of_axis,
                                int ranks) {
  Operation drawn;
  drawn.kind = static_cast<Kind>(draws.below(kKinds));
  if (first) {
    drawn.kind = static_cast<Kind>(draws.below(kCollectives));
  }
  drawn.axis = draws.below(stream_of_axis.size());
  drawn.stream = stream_of_axis[drawn.axis];
  drawn.count = 1 + draws.below(2000);
  drawn.root = draws.below(ranks);
  drawn.type = draws.below(kTypes);
  drawn.reduction = draws.below(kReductions);
  drawn.site = draws.below(kSites);
  drawn.times = 1 + draws.below(3);
  return drawn;
}

inline std::vector<Operation> draw_step(Draws& draws, const std::vector<int>& stream_of_axis,
                                        int ranks) {
  std::vector<Operation> step(3 + draws.below(8));
  const bool with_graphs = draws.below(3) == 0;
  size_t graphs = 0;
  for (Operation& operation : step) {
    operation = draw_operation(draws, &operation == step.data(), stream_of_axis, ranks);
    if (operation.kind == Kind::kGraph && with_graphs) {
      operation.graph = graphs++;
    } else if (operation.kind == Kind::kGraph) {
      operation.kind = Kind::kAllReduce;
    }
  }
  return step;
}

// A step without a collective of the world gets one.
inline size_t draw_fault_at(Draws& draws, std::vector<Operation>& step, int stream_of_world) {
  std::vector<size_t> of_world;
  for (size_t i = 0; i < step.size(); ++i) {
    if (is_collective(step[i].kind) && step[i].axis == 0) {
      of_world.push_back(i);
    }
  }
  const int drawn = draws.below(1000);
  if (!of_world.empty()) {
    return of_world[drawn % of_world.size()];
  }
  step[0].kind = Kind::kAllReduce;
  step[0].axis = 0;
  step[0].stream = stream_of_world;
  return 0;
}

inline Plan make_plan(unsigned seed, int ranks) {
  Draws draws(seed);
  Plan plan;
  plan.splits = draw_splits(draws);
  plan.streams = 1 + draws.below(3);
  std::vector<int> stream_of_axis(1 + plan.splits.size());
  for (int& stream : stream_of_axis) {
    stream = draws.below(plan.streams);
  }
  plan.step = draw_step(draws, stream_of_axis, ranks);
  plan.steps = 5 + draws.below(15);
  plan.fault_step = 2 + draws.below(plan.steps - 3);
  plan.finishes = draws.below(2) == 1;
  plan.fault_at = draw_fault_at(draws, plan.step, stream_of_axis[0]);
  return plan;
}

// What the culprit calls in the step of the fault.
inline std::vector<Operation> mistaken_step(const Plan& plan, const std::string& fault) {
  std::vector<Operation> step = plan.step;
  const auto at = step.begin() + static_cast<std::ptrdiff_t>(plan.fault_at);
  Operation mistaken = *at;
  mistaken.by_mistake = true;
  if (fault == "skip") {
    step.erase(at);
  } else if (fault == "extra") {
    step.insert(at, mistaken);
  } else if (fault == "count") {
    mistaken.count += 5;
    *at = mistaken;
  } else if (fault == "type") {
    at->type = (at->type + 1) % kTypes;
  } else if (fault == "operation") {
    at->kind = at->kind == Kind::kAllReduce ? Kind::kAllGather : Kind::kAllReduce;
  } else if (fault == "swap") {
    const bool last = at + 1 == step.end();
    Operation next = last ? step.front() : *(at + 1);
    next.by_mistake = true;
    *at = mistaken;
    if (last) {
      step.insert(at, next);
    } else {
      *(at + 1) = std::exchange(*at, next);
    }
  }
  return step;
}
