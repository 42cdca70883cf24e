// What a job loses again and again, told from what happened once.
#pragma once

#include <map>
#include <vector>

#include "analyzer/timeline/profile.h"

namespace traintrace {

// Of losses of one kind on one GPU.  They are a habit if they come in half of the steps, at least
// twice - steps are counted, not losses: all gaps of a warm-up step happened once.  What is longer
// than that habit explains, alone or with others of its step, is a single pause.  Where steps are
// not known, parts with as many pieces of work each stand for them, which may be unlike each other:
// only single losses are compared then.
class Habit {
 public:
  Habit(const DeviceProfile& device, const std::vector<IdleGap>& losses);

  bool has(const IdleGap& loss) const;
  int64_t sum_ns() const { return sum_ns_; }  // of all that it has

 private:
  const DeviceProfile& device_;
  std::map<int64_t, int64_t> longest_;  // by stretch_of: the longest that it has there
  int64_t sum_ns_ = 0;
};

// The step, or the part with as much work as others, in which the middle of it lies; -1: before
// all.
int64_t stretch_of(const DeviceProfile& device, const IdleGap& loss);

}  // namespace traintrace
