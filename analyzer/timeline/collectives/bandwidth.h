// How fast collectives carry their data, by NCCL's definitions (nccl-tests/doc/PERFORMANCE.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Collectives of one operation, size and group of ranks.
struct CollectiveSpeed {
  std::string operation;  // as the framework calls it, else the kernel's name
  std::string group;      // empty: not known
  int ranks = -1;         // of the group; -1: not known
  int64_t bytes = -1;     // by which NCCL counts: all that one rank has afterwards, or had before
  int64_t count = 0;
  // Median from the arrival of the last rank to the end; where arrivals are not known, of a kernel
  // from its start, which waiting for others may be part of.
  int64_t median_ns = 0;
  bool without_waiting = false;

  // In bytes per second, in 10^9.  None: size, ranks or operation are not known.
  std::optional<double> algorithm_gbps() const;  // bytes / time
  std::optional<double> bus_gbps() const;        // by what each link had to carry
};

// Largest sum of time first.  `groups`: find_arrivals() of these timelines.
std::vector<CollectiveSpeed> collective_speeds(std::span<const Timeline> timelines,
                                               const std::vector<Arrivals>& groups);

}  // namespace traintrace
