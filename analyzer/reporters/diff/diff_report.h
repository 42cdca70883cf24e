// How the difference between two runs is shown.
#pragma once

#include <string>
#include <vector>

#include "analyzer/memory/memory_diff.h"
#include "analyzer/model/runs/run_diff.h"
#include "analyzer/numbers/numbers_diff.h"
#include "analyzer/timeline/profile_diff.h"

namespace traintrace {

// What is known of two runs: null what is not.
struct Difference {
  const RunDiff* calls = nullptr;
  const ProfileDiff* time = nullptr;
  std::vector<MemoryDiff> memory = {};  // of ranks whose peaks differ
  const NumbersDiff* numbers = nullptr;
};

std::string diff_verdict(const Difference& diff);  // one sentence
std::string diff_text(const Difference& diff);
std::string diff_json(const Difference& diff);  // schema traintrace.diff/1

}  // namespace traintrace
