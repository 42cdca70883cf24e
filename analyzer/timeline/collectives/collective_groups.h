// The NCCL kernels of each group of ranks, as each of its members ran them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// One collective on one rank; several kernels where NCCL or PyTorch splits or coalesces it.
struct GroupKernel {
  const GpuWork* first;
  int64_t end_ns;
  int64_t sequence;  // -1: not known
};

struct GroupSide {
  size_t timeline;                   // its place in the timelines
  std::vector<GroupKernel> kernels;  // by sequence, else by time
};

// Ranks that meet in collectives: those that share a communicator, by its name and its members.
struct CollectiveGroup {
  std::string name;              // empty: nothing says which groups there are
  std::vector<GroupSide> sides;  // by timeline; each has as many kernels, and these belong together
  bool numbered = false;         // joined by their sequence numbers
  bool cut = false;              // some ranks recorded collectives that others did not
  std::string why_not;           // nothing could be joined
};

// Whether the framework said of a kernel that it sends to one rank or receives from one.
bool is_message(const Timeline& timeline, const CollectiveNote& note);

// By name.  Where the timelines do not say which communicator a kernel is of, there is one group of
// all ranks with the stream of each that has most such kernels.  Messages from one rank to another
// are left out: these do not begin and end together.
std::vector<CollectiveGroup> collective_groups(std::span<const Timeline> timelines);

}  // namespace traintrace
