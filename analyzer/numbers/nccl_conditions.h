// What the result of an operation of NCCL depends on beside its inputs, as far as it is recorded.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// One that differs between the same communicator of two runs.
struct ConditionDiff {
  std::string name;  // "NCCL" (its version), "NCCL_ALGO", "order of ranks", "hosts"
  Ranks ranks;       // of which; none: of all together
  std::string a, b;  // empty: not set, or not known
};

std::vector<ConditionDiff> nccl_conditions_diff(const Run& run_a, const Communicator& a,
                                                const Run& run_b, const Communicator& b);

// "NCCL 2.28.9, NCCL_ALGO=ring": what is known of that communicator and the same on all its ranks.
std::string nccl_conditions_text(const Run& run, const Communicator& communicator);

}  // namespace traintrace
