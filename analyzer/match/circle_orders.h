// In which order ranks come to the two operations in which others wait for each other.
#pragma once

#include <optional>

#include "analyzer/model/run.h"

namespace traintrace {

struct CircleOrder {
  Ranks ranks;  // of those that have both to call, those that come to that one first
  Ranks alike;  // those that do so where they have a communicator of their own in place of one
};

struct CircleOrders {
  CircleOrder first, second;  // by the two waits that are parts of the circle
};

// None: the circle has more parts than two.
std::optional<CircleOrders> orders_in(const Run& run, const Hang& circle);

}  // namespace traintrace
