#include "analyzer/numbers/read_again.h"

#include <algorithm>

#include "analyzer/numbers/batches.h"
#include "analyzer/numbers/numbers_diff.h"

namespace traintrace {
namespace {

using PlaceOfBatches = SentBatches::key_type;
using SentHashes = SentBatches::mapped_type;

PlaceOfBatches place_of(const PlaceBatches& all) {
  return {place_text(*all.front()), all.front()->callers, all.front()->frames};
}

// What the rank begins with, up to the first batch that is new.
struct Beginning {
  size_t count = 0;
  size_t all = 0;
  SentBefore first = {};
  bool is_same_position = true;
};

Beginning beginning_of(const BatchSeries& series, const SentHashes& sent) {
  const std::vector<size_t> changing = changing_batches(series);
  Beginning beginning;
  beginning.all = changing.size();
  for (; beginning.count < changing.size(); ++beginning.count) {
    const auto known = sent.find(series.hashes[changing[beginning.count]]);
    if (known == sent.end()) {
      break;
    }
    beginning.first = beginning.count == 0 ? known->second : beginning.first;
    beginning.is_same_position = beginning.is_same_position && known->second.rank == series.rank &&
                                 known->second.number == beginning.count + 1;
  }
  return beginning;
}

}  // namespace

SentBatches sent_batches(const Run& run, const Numbers& numbers) {
  SentBatches sent;
  if (!std::all_of(run.processes.begin(), run.processes.end(),
                   [](const ProcessTrace& trace) { return is_complete(trace); })) {
    return sent;
  }
  for (const PlaceBatches& all : batches_by_place(numbers)) {
    SentHashes& hashes = sent[place_of(all)];
    for (const BatchSeries* const series : all) {
      const std::vector<size_t> changing = changing_batches(*series);
      for (size_t i = 0; i < changing.size(); ++i) {
        hashes.try_emplace(series->hashes[changing[i]],
                           SentBefore{series->rank, i + 1, changing.size()});
      }
    }
  }
  return sent;
}

std::vector<ReadAgain> read_again(const SentBatches& earlier, const Run& later_run,
                                  const Numbers& later, SameStart same_start) {
  std::vector<ReadAgain> found;
  for (const PlaceBatches& all : batches_by_place(later)) {
    const auto before = earlier.find(place_of(all));
    if (before == earlier.end()) {
      continue;
    }
    ReadAgain again;
    for (const BatchSeries* const series : all) {
      const Beginning beginning = beginning_of(*series, before->second);
      const bool is_another = beginning.is_same_position && same_start == SameStart::kAnotherRun;
      if (beginning.count == 0 || is_another ||
          !is_complete(later_run.processes[series->process])) {
        continue;
      }
      if (again.ranks.empty()) {
        again.place = place_text(*series);
        again.rank = series->rank;
        again.where = series->place;
        again.number = beginning.first.number;
        again.of_number = beginning.first.of_number;
        again.earlier_rank = beginning.first.rank;
      }
      insert(again.ranks, series->rank);
      again.count += beginning.count;
      again.all += beginning.all;
    }
    if (again.count != 0) {
      found.push_back(std::move(again));
    }
  }
  return found;
}

}  // namespace traintrace
