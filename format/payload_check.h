// What TRAINTRACE_PAYLOAD=small and check record of the buffers of NCCL's operations
// (docs/payload.md): the moments `payloadCheck` and `payloadSketch`, and the cell that a GPU writes
// for them.
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

// A sketch of a buffer (Alon, Matias and Szegedy, "The space complexity of approximating the
// frequency moments", 1996): its elements are dealt out to rows by their index, and each row has
// the sum of its elements with random signs (payload_sign).  If a buffer is the sum of others, its
// signed sums are the sums of theirs, but for rounding.  With random signs the rounding errors of n
// elements add up to about the square root of n, even if all of them go the same way; so much less
// suffices to show that something else is wrong.
inline constexpr uint32_t kPayloadRows = 16;
struct PayloadRow {
  double signed_sum;
  double square_sum;
};

constexpr uint32_t payload_row(uint64_t index) {
  return static_cast<uint32_t>(index % kPayloadRows);
}

// As it is recorded: the signed sum as a float, in the lower half, and the square root of the other
// one as a float that is no smaller.
inline uint64_t packed(const PayloadRow& row) {
  const double norm = __builtin_sqrt(row.square_sum);
  const auto nearest = static_cast<float>(norm);
  const uint32_t above = __builtin_bit_cast(uint32_t, nearest) + (nearest < norm ? 1 : 0);
  const auto sum = static_cast<float>(row.signed_sum);
  return __builtin_bit_cast(uint32_t, sum) | uint64_t{above} << 32;
}

// The sign bit of a double, set or not.  It depends on the index within the part alone, so it is
// the same on all ranks, whatever the data.  From the finalizer of MurmurHash3 (public domain, A.
// Appleby).
constexpr uint64_t payload_sign(uint64_t index) {
  uint32_t mixed = static_cast<uint32_t>(index) ^ static_cast<uint32_t>(index >> 32) * 0x9e3779b9U;
  mixed = (mixed ^ (mixed >> 16)) * 0x85ebca6bU;
  mixed = (mixed ^ (mixed >> 13)) * 0xc2b2ae35U;
  return uint64_t{mixed >> 31} << 63;
}

// In pinned memory.  Who wrote it stores `stamp` last; what it is to be was given with the launch.
struct PayloadCell {
  PayloadTally tally;
  PayloadRow rows[kPayloadRows];
  uint64_t stamp;
  uint64_t reserved;
};
static_assert(sizeof(PayloadCell) == 320);

}  // namespace traintrace::format
