// What TRAINTRACE_PAYLOAD=small and check record of the buffers of NCCL's operations
// (docs/payload.md): the moment `payloadCheck`, and the cell that a GPU writes for it.
#pragma once

#include <cstdint>

namespace traintrace::format {

// `operation` of a check.
enum CheckedOperation : uint32_t {
  kCheckedNothing = 0,
  kCheckedAllReduce = 1,
  kCheckedReduce = 2,
  kCheckedBroadcast = 3,  // ncclBcast, too
  kCheckedAllGather = 4,
  kCheckedReduceScatter = 5,
  kCheckedAllToAll = 6,
  kCheckedGather = 7,
  kCheckedScatter = 8,
  kCheckedSend = 9,
  kCheckedReceive = 10,
};

// z of `part`: before the operation what the rank gave (not of a broadcast's or scatter's others,
// nor of a receive), after it what it got (not of a reduction's or gather's others, nor of a send).
// x of `part` counts the parts of y: what AllGather and Gather give of each rank, what
// ReduceScatter, AllToAll and Scatter take for each rank, what AllToAll gives of each; else there
// is one part.
enum CheckedSide : uint32_t { kCheckedInput = 0, kCheckedOutput = 1 };

// Of one part, or of some of its elements: such tallies add up (`largest` by the larger one).
// Elements that are NaN or infinite count as that only, and in the hash.
struct PayloadTally {
  uint32_t nans;
  uint32_t infinities;
  double largest;  // absolute
  double sum;
  double absolute_sum;
  double square_sum;
  // Sum of payload_hash over all elements: equal for equal data, whatever the order of adding.
  uint64_t hash;
};

// Of the element of that index within its part; `bits` as an unsigned number of its size.  The
// finalizer of splitmix64 (public domain, S. Vigna).
constexpr uint64_t payload_hash(uint64_t index, uint64_t bits) {
  uint64_t mixed = bits + (index + 1) * 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

// In pinned memory.  Who wrote it stores `stamp` last; what it is to be was given with the launch.
struct PayloadCell {
  PayloadTally tally;
  uint64_t stamp;
  uint64_t reserved;
};
static_assert(sizeof(PayloadCell) == 64);

}  // namespace traintrace::format
