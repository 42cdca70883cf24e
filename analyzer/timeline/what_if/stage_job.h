// The operations of a pipeline- and data-parallel job, which of them wait for which, and how long
// its steps take if they have other lengths.  The rules of the order are those of the analysis
// that slowdown.h names.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/timeline/what_if/slowdown.h"

namespace traintrace::what_if {

enum class OperationKind : uint8_t {
  kForward,
  kBackward,
  kForwardSend,
  kForwardReceive,
  kBackwardSend,
  kBackwardReceive,
  kParameters,
  kGradients,
  kNorms,
  kEmbeddings,
  kSeparate,
  kClip,
  kOptimizer,
  kGarbage,
};
// By kind, as the published data of that analysis name them.
inline constexpr std::array<std::string_view, 14> kOperationNames = {"forward-compute",
                                                                     "backward-compute",
                                                                     "forward-send",
                                                                     "forward-recv",
                                                                     "backward-send",
                                                                     "backward-recv",
                                                                     "params-all-gather",
                                                                     "grads-reduce-scatter",
                                                                     "layernorm-grads-all-reduce",
                                                                     "embedding-grads-all-reduce",
                                                                     "separate-grads-all-reduce",
                                                                     "optimizer-clip-main-grad",
                                                                     "optimizer",
                                                                     "gc"};

// With whom an operation begins: other stages of its replica, the same stage of other replicas,
// all.
struct Operation {
  OperationKind kind;
  int replica, stage, step, rank;  // each from 0; `step` in the order of their numbers
  double start_s, end_s;
  double length_s = 0;  // of computing, or of the transfer once all have come
  size_t meeting = 0;   // 0: with nobody
  std::vector<size_t> next = {};
  int before = 0;  // how many it waits for
};

class StageJob {
 public:
  // Once, and not of none.  False: these are no such job, and why is in `why_not`.
  bool add(const std::vector<StageOperation>& operations, std::string& why_not);
  // Once, after add(): finds who waits for whom, and who begins together.
  void join();
  // Mean step time with these lengths; -1: operations wait for each other in a cycle.
  double run(const std::vector<double>& length_s) const;
  double recorded_s() const;  // mean time of a step
  // In seconds, by node: as recorded; and the mean of the kind if it computes, the median else.
  std::vector<double> lengths() const;
  std::vector<double> usual_lengths() const;
  const std::vector<Operation>& nodes() const { return nodes_; }
  int stages() const { return stages_; }
  int replicas() const { return replicas_; }
  size_t steps() const { return steps_.size(); }
  size_t workers() const { return workers_; }

 private:
  using List = std::vector<size_t>;
  void order(size_t before, size_t after) {
    nodes_[before].next.push_back(after);
    ++nodes_[after].before;
  }
  void chain(const List& list) {
    for (size_t i = 1; i < list.size(); ++i) {
      order(list[i - 1], list[i]);
    }
  }
  void add_worker(std::map<OperationKind, List>& lists, int stage);
  void add_messages(std::map<OperationKind, List>& lists, int stage);
  void add_update(std::map<OperationKind, List>& lists, size_t last_compute);
  void meet(const List& list) {
    if (list.size() > 1) {
      meetings_.push_back(list);
      for (const size_t node : list) {
        nodes_[node].meeting = meetings_.size();
      }
    }
  }
  void find_transfers();

  std::vector<Operation> nodes_;
  std::vector<List> meetings_;
  std::vector<int64_t> steps_;
  // By step, replica and stage; by kind in the order of time.
  std::map<std::tuple<int, int, int>, std::map<OperationKind, List>> lists_;
  int stages_ = 0, replicas_ = 0;
  size_t workers_ = 0;
};

}  // namespace traintrace::what_if
