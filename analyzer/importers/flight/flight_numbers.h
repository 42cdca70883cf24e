// One number for each call of a group.
//
// Before PyTorch 2.6 a call of several collectives, as an all-gather of a list is, raises the
// number of its group once for each of them, and has one entry.  A rank that called something else
// there goes on with other numbers: by these its next calls would seem to be far behind those of
// the others, and the call that differs would never meet theirs.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/importers/flight/flight_jobs.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

class FlightNumbers {
 public:
  // Of one job.
  explicit FlightNumbers(const std::vector<FlightFile>& files);

  // Near its end a group has the numbers that its entries have, and before that higher ones.
  void renumber(const FlightGroup& group, CommunicatorText& text) const;

 private:
  struct GroupNumbers {
    uint64_t known_since = 0;     // from that call on all members know how much each call counts
    uint64_t least = UINT64_MAX;  // to which the one that called least has come
    uint64_t shift = 0;
  };

  void add(const FlightGroup& group, const CommunicatorText& text);
  void add_shift(const FlightGroup& group, const CommunicatorText& text);

  std::map<uint64_t, GroupNumbers> groups_;  // by group_id; those that are renumbered
};

}  // namespace traintrace
