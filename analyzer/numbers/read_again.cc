#include "analyzer/numbers/read_again.h"

#include <algorithm>

#include "analyzer/numbers/batches.h"
#include "analyzer/numbers/numbers_diff.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using PlaceOfBatches = SentBatches::key_type;
using SentHashes = SentBatches::mapped_type;

PlaceOfBatches place_of(const PlaceBatches& all) {
  return {place_text(*all.front()), all.front()->callers, all.front()->frames};
}

// What the rank begins with, in the order in which one rank sent it, up to the first that is new.
struct Beginning {
  size_t count = 0;
  size_t all = 0;
  SentBefore first = {};
  bool is_same_position = true;
};

// Of that rank, else of whoever sent it first; null: nobody did.
const SentBefore* sent_by(const SentHashes& sent, uint64_t hash, Rank rank) {
  const auto known = sent.find(hash);
  if (known == sent.end()) {
    return nullptr;
  }
  const auto own = std::find_if(known->second.begin(), known->second.end(),
                                [&](const SentBefore& one) { return one.rank == rank; });
  return own == known->second.end() ? &known->second.front() : &*own;
}

Beginning beginning_of(const BatchSeries& series, const SentHashes& sent) {
  const std::vector<size_t> changing = changing_batches(series);
  Beginning beginning;
  beginning.all = changing.size();
  for (; beginning.count < changing.size(); ++beginning.count) {
    const Rank rank = beginning.count == 0 ? series.rank : beginning.first.rank;
    const SentBefore* const known = sent_by(sent, series.hashes[changing[beginning.count]], rank);
    if (known == nullptr) {
      break;
    }
    if (beginning.count == 0) {
      beginning.first = *known;
    } else if (known->rank != rank || known->number != beginning.first.number + beginning.count) {
      break;
    }
    beginning.is_same_position = beginning.is_same_position && known->rank == series.rank &&
                                 known->number == beginning.count + 1;
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
      const uint64_t last = changing.empty() ? 0 : series->hashes[changing.back()];
      for (size_t i = 0; i < changing.size(); ++i) {
        std::vector<SentBefore>& all_of_hash = hashes[series->hashes[changing[i]]];
        const bool goes_on = i > 0 && series->hashes[changing[i - 1]] == last;
        if (!all_of_hash.empty() && all_of_hash.back().rank == series->rank) {
          all_of_hash.back().number = i + 1;
          all_of_hash.back().goes_on = all_of_hash.back().goes_on || goes_on;
        } else {
          all_of_hash.push_back({series->rank, i + 1, changing.size(), goes_on});
        }
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
      if (beginning.count < kFewestSame || beginning.first.goes_on || is_another ||
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
