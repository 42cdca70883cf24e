// Batches that a run begins with and that an earlier run had sent to its GPUs already: what a job
// that was resumed reads again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyzer/numbers/numbers.h"

namespace traintrace {

// At one line of code.
struct ReadAgain {
  std::string place;  // "data.py:7 in load"
  std::optional<CodePlace> where;
  Ranks ranks;           // of the later run: they begin with such batches
  size_t count = 0;      // of these batches, all ranks together
  size_t all = 0;        // changing batches that these ranks sent in the later run
  Rank rank;             // the first of `ranks`
  size_t number = 0;     // from 1, of changing ones: its first batch is that one of `earlier_rank`
  size_t of_number = 0;  // how many changing batches `earlier_rank` sent
  Rank earlier_rank;
};

struct SentBefore {
  Rank rank;
  size_t number = 0;     // from 1, of the changing batches of that rank: the last time
  size_t of_number = 0;  // how many it sent
  // The batch that it sent last came before that one, too: its data repeat, and go on there.
  bool goes_on = false;
};
// By line of code (place, callers, frames), then by hash.  Batches count if they change
// (batches.h).
using SentBatches = std::map<std::tuple<std::string, std::string, std::vector<std::string>>,
                             std::unordered_map<uint64_t, std::vector<SentBefore>>>;  // by hash
// Empty if records of the run are missing: where its batches stood is not known then.
SentBatches sent_batches(const Run& run, const Numbers& numbers);

// A rank that begins with the same batches as in the earlier run, in the same order.
enum class SameStart : uint8_t {
  kAnotherRun,  // is another run of the same job, and reads nothing again
  kReadAgain,   // starts its data again: it is known to go on with the earlier one's work
};

// Not of ranks of which records are missing: what they began with is not known.
std::vector<ReadAgain> read_again(const SentBatches& earlier, const Run& later_run,
                                  const Numbers& later, SameStart same_start);

}  // namespace traintrace
