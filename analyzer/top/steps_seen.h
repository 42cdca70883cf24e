// How long the steps of a job take, told from the last collectives of its communicators alone.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/top/live_process.h"

namespace traintrace {

// A step is as long as it takes to come back to the call, of all that come back regularly, that
// comes back least often.  In collectives of one communicator, the one that ranks are compared by.
struct StepRule {
  uint64_t collectives = 0;  // in each step; 0: nothing comes back regularly
  uint64_t anchor = 0;       // sequence of one that begins a step
};

// `compared`: the last operations of that communicator; `others`: of other ones of the same
// process.
StepRule find_steps(const std::vector<LiveOperation>& compared,
                    const std::vector<std::vector<LiveOperation>>& others);

// The steps of one process, over many looks at its operations.
class StepsSeen {
 public:
  // `operations`: the last ones of the communicator that `rule` is about.  Keeps `most` steps.
  void note(const StepRule& rule, const std::vector<LiveOperation>& operations, size_t most);
  const std::vector<int64_t>& lengths() const { return lengths_; }  // ns, oldest first
  uint64_t number() const { return number_; }  // of the last one, about; 0: not known

 private:
  StepRule rule_;
  uint64_t last_ = 0;  // sequence that the last step ended with
  TimeNs last_enter_ = 0;
  uint64_t number_ = 0;
  std::vector<int64_t> lengths_;
};

}  // namespace traintrace
