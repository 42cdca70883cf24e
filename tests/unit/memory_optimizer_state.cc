// uses: analyzer
// Whether an optimizer of PyTorch's allocated something for itself.
#include "analyzer/memory/growth/optimizer_state.h"

#include <gtest/gtest.h>

namespace traintrace {
namespace {

const PythonFrameText kInit{"_init_group", "/usr/lib/python3/site-packages/torch/optim/adamw.py",
                            1};
const PythonFrameText kStep{"step", "/usr/lib/python3/site-packages/torch/optim/adamw.py", 2};
const PythonFrameText kTorch{"zeros", "/usr/lib/python3/site-packages/torch/_refs/__init__.py", 3};
const PythonFrameText kJob{"train_step", "train.py", 4};

bool is_state(std::vector<PythonFrameText> python) {
  ProcessTrace trace;
  trace.stacks[1] = {std::move(python), {}};
  return is_optimizer_state(trace, 1);
}

TEST(MemoryOptimizerState, IsAllocatedByTheOptimizer) {
  EXPECT_TRUE(is_state({kInit, kStep, kJob}));
  EXPECT_TRUE(is_state({kTorch, kInit, kStep, kJob}));
  EXPECT_FALSE(is_state({kTorch, kJob}));
  EXPECT_FALSE(is_state({}));
  EXPECT_FALSE(is_optimizer_state({}, 1));
}

TEST(MemoryOptimizerState, IsNotWhatTheOptimizerHasTheJobDo) {
  EXPECT_FALSE(is_state({kTorch, kJob, kStep, kJob})) << "a closure";
}

}  // namespace
}  // namespace traintrace
