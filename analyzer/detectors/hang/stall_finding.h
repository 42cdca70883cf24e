// What findings about operations that all have entered (stalls.h) have in common.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/model/waiting/stalls.h"

namespace traintrace {

// A watchdog gave it up, and nothing says why it did not end.
bool is_given_up(const RootStall& root);
// All ranks entered both operations that hold each other up in one order.
bool is_in_order(const Run& run, const Stall& stall);

std::vector<Finding> find_stalled(const Run& run, std::string_view code,
                                  const std::function<bool(const RootStall&)>& is_this);

}  // namespace traintrace
