// Batches that a run begins with and that an earlier run had sent to its GPUs already: what a job
// that was resumed reads again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/numbers/numbers.h"

namespace traintrace {

// At one line of code.
struct ReadAgain {
  std::string place;     // "data.py:7 in load"
  Ranks ranks;           // of the later run: they begin with such batches
  size_t count = 0;      // of these batches, all ranks together
  size_t all = 0;        // changing batches that these ranks sent in the later run
  Rank rank;             // the first of `ranks`
  size_t number = 0;     // from 1, of changing ones: its first batch is that one of `earlier_rank`
  size_t of_number = 0;  // how many changing batches `earlier_rank` sent
  Rank earlier_rank;
};

// Batches count if they change (batches.h).  Not of ranks that do the same as in the earlier run
// from the start, as two runs of one job do; nor of ranks of which records are missing: what they
// began with is not known.
std::vector<ReadAgain> read_again(const Run& earlier_run, const Numbers& earlier,
                                  const Run& later_run, const Numbers& later);

}  // namespace traintrace
