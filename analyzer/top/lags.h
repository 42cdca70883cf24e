// Who enters the collectives of a running job later than the others.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/top/live_process.h"

namespace traintrace {

// When each collective was entered, by sequence number.
using Entries = std::map<uint64_t, TimeNs>;
Entries entries_of(const std::vector<LiveOperation>& operations);

struct Lag {
  int64_t ns = 0;               // after the median member, over the last collectives
  int last = 0, of = 0;         // how many of these it entered last
  bool is_exceptional = false;  // more than chance and the usual spread make it
};

// Of the members of one communicator, in their order: of the last collectives that all have
// entered.  Empty: there are none, or fewer than two members.
std::vector<Lag> lags_of(const std::vector<const Entries*>& members);

}  // namespace traintrace
