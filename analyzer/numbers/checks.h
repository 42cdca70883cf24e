// What TRAINTRACE_PAYLOAD=small and check recorded of the buffers of NCCL's operations (the moments
// payloadCheck and payloadSketch), joined over the ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/numbers/sites.h"
#include "format/payload_check.h"

namespace traintrace {

// A row of a sketch as it was recorded: `norm` is the square root of its squares' sum.
struct SketchRow {
  float signed_sum = 0, norm = 0;
};
using Sketch = std::array<SketchRow, format::kPayloadRows>;

// One part of a rank's input or output.
struct Check {
  format::PayloadTally tally;
  uint64_t sequence = 0;
  uint64_t count = 0;  // elements of the part
  TimeNs time = 0;     // of the operation's call
  Rank rank;
  uint32_t communicator = 0;  // in Run::communicators
  uint32_t site = 0;          // in Checks::sites
  uint32_t part = 0;          // of `parts`
  uint32_t parts = 1;
  uint32_t sketch = 0;  // in Checks::sketches, from 1; 0: there is none
  int32_t member = -1;  // the rank's number within the communicator
  int32_t peer = -1;
  int16_t type = -1;       // ncclDataType_t
  int16_t reduction = -1;  // as OperationText
  format::CheckedOperation operation = format::kCheckedNothing;
  format::CheckedSide side = format::kCheckedInput;
  // The communicator was aborted, and this operation had not finished: whatever lay in the buffer
  // then is no result.
  bool aborted = false;
  // Another operation of the same group wrote there, too: it may be the result of that one.
  bool overwritten = false;
};

// One collective, or one message with both its ends.
struct CheckedOperation {
  size_t first = 0, count = 0;  // in Checks::all: inputs before outputs, by member and part
  TimeNs time = 0;              // of the first call
  // All are of one sort, type, reduction and size, each part was recorded once, no rank aborted it,
  // and no result was overwritten.  Nothing else may be compared.
  bool agrees = false;
};

// Operations that repeat, as a bucket of gradients does in each step.
struct CheckedBucket {
  std::vector<size_t> operations;  // in Checks::operations, by sequence; all of them agree
};

struct Checks {
  std::vector<Check> all;
  std::vector<Site> sites;
  std::vector<Sketch> sketches;
  std::vector<CheckedOperation> operations;  // by communicator, then sender and receiver, sequence
  // Of one communicator, call site, sort, type, reduction and size.
  std::vector<CheckedBucket> buckets;
  std::map<Rank, std::vector<uint32_t>> of_rank;  // in `all`, in the order of its calls
  // When a rank called an operation of which nothing is recorded.
  std::map<Rank, std::vector<TimeNs>> unchecked;
  Ranks capturing;  // replay operations by a graph, and these are not checked
};

std::span<const Check> checks_of(const Checks& checks, const CheckedOperation& operation);
// Those of one side.
std::span<const Check> side_of(std::span<const Check> operation, format::CheckedSide side);
// Those of one member, of a side.
std::span<const Check> member_side(std::span<const Check> side, int32_t member);

// `see` gets the parts of each input and output of `own` (Checks::of_rank), in the order of the
// rank's calls.
void each_buffer(const Checks& checks, std::span<const uint32_t> own,
                 const std::function<void(std::span<const Check> parts)>& see);

// All parts of a rank's input or output together.
struct WholeTally {
  uint64_t nans = 0, infinities = 0, count = 0;
  double largest = 0, sum = 0, absolute_sum = 0, square_sum = 0;
  uint64_t hash = 0;  // equal for equal parts in the same order

  uint64_t nonfinite() const { return nans + infinities; }
  double norm() const;
  bool is_zero() const { return nonfinite() == 0 && largest == 0; }
};
WholeTally whole(std::span<const Check> parts);

// Its hash and sums were recorded: a tally that was left out is all zero, which a hash never is.
inline bool has_sums(const Check& check) {
  return check.tally.hash != 0;
}
inline bool holds_nonfinite(const Check& check) {
  return check.tally.nans != 0 || check.tally.infinities != 0;
}
// SUM, AVG or PreMulSum.
bool is_sum(const Check& check);
bool is_message(format::CheckedOperation operation);
// float16, float32, float64 and bfloat16; not those of 8 bits, which are scaled.
bool is_real(int type);

// "ncclAllReduce"
std::string operation_name(format::CheckedOperation operation);
// "ncclAllReduce #812 on dp"; "message #3 from rank 0 to rank 1 on pp".
std::string operation_text(const Run& run, const Check& check);

// Of one process, with its events.
void add_checks(const Run& run, size_t process, const ProcessTrace& events, Checks& checks);
// After the last one.
void complete(Checks& checks);

}  // namespace traintrace
