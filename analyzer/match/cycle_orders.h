// In which order ranks come to the two operations in which others wait for each other.
#pragma once

#include <optional>

#include "analyzer/model/run.h"

namespace traintrace {

struct CycleOrder {
  Ranks ranks;  // of those that have both to call, those that come to that one first
  Ranks alike;  // those that do so where they have a communicator of their own in place of one
};

struct CycleOrders {
  CycleOrder first, second;  // by the two waits that are parts of the cycle
};

// None: the cycle has more parts than two.
std::optional<CycleOrders> orders_in(const Run& run, const Hang& cycle);

}  // namespace traintrace
