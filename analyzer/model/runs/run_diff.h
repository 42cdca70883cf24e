// Two runs of one job, a good one and a bad one: where the collectives of a rank on a communicator
// first differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"
#include "analyzer/model/sequence_item.h"

namespace traintrace {

enum class DiffKind : uint8_t {
  kSame,  // as far as both are known
  kDiffers,
  kEnds,     // the same, but one of them ends earlier
  kUnknown,  // nothing is known of both at one place
};

// What one of the two runs has there.
struct DiffSide {
  uint64_t collectives = 0;          // all it issued
  std::optional<SequenceItem> item;  // at the first difference; none: not kept, or there is none
  std::string place;                 // "train.py:118 in step"; may be empty
};

struct SequenceDiff {
  DiffKind kind = DiffKind::kSame;
  std::string communicator;
  Ranks ranks;  // whose differences are alike
  uint64_t sequence = 0;
  uint64_t sequence_last = 0;  // it is one of these
  uint64_t compared_from = 0;  // equal from there, or from the beginning (1), on
  DiffSide a, b;
};

struct RunDiff {
  std::vector<SequenceDiff> sequences;  // those that differ first, then by communicator, rank
  std::vector<std::string> only_in_a, only_in_b;  // communicators
  Ranks ranks_only_in_a, ranks_only_in_b;  // of whom the other has no trace: compared with nobody
};

// Events are only read where the tables do not say enough.
RunDiff diff_runs(const Run& a, const Run& b, const ReadEvents& read_events);

}  // namespace traintrace
