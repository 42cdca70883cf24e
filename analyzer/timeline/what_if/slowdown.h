// How much faster a job would be if no rank were slower than usual: the what-if analysis of
// "Understanding Stragglers in Large Model Training Using What-if Analysis" (Lin et al., OSDI
// 2025), by its definitions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace traintrace {

// One operation of one worker.
struct StageOperation {
  int rank = 0;
  int stage = 0;  // of the pipeline, from 0
  int64_t step = 0;
  std::string operation;  // "forward-compute", "grads-reduce-scatter", ..
  double start_s = 0, end_s = 0;
};

struct Slowdown {
  // Mean step time: as recorded; run again without what no operation explains (launch delays); and
  // with each operation as long as those of its kind usually are - the mean of computing, the
  // median of transfers.
  double recorded_s = 0, replayed_s = 0, ideal_s = 0;
  double job = 1;  // S = replayed / ideal
  struct Part {
    int number = 0;  // rank, stage
    double slowdown = 1;
  };
  // What the job would be slowed down by if only these operations took as long as they did.  Of a
  // rank: the smaller of its stage's and its replica's, largest first.
  std::vector<Part> ranks, stages;
  std::vector<std::pair<std::string, double>> operations;
  // How much of the slowdown would go if the slowest 3 % of the ranks, or the last stage, were as
  // usual. None: there is none.
  std::optional<double> by_ranks, by_last_stage;
  size_t steps = 0, workers = 0;
};

// Why nothing can be said is in `why_not`.
Slowdown slowdown_of(const std::vector<StageOperation>& operations, std::string& why_not);

}  // namespace traintrace
