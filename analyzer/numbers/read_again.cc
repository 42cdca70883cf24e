#include "analyzer/numbers/read_again.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analyzer/numbers/batches.h"
#include "analyzer/numbers/numbers_diff.h"

namespace traintrace {
namespace {

struct SentBefore {
  Rank rank;
  size_t number = 0;  // from 0, of the changing ones
  size_t of_number = 0;
};
using SentHashes = std::unordered_map<uint64_t, SentBefore>;
using PlaceOfBatches = std::tuple<std::string, std::string, std::vector<std::string>>;

PlaceOfBatches place_of(const PlaceBatches& all) {
  return {place_text(*all.front()), all.front()->callers, all.front()->frames};
}

std::map<PlaceOfBatches, SentHashes> sent_hashes(const Numbers& numbers) {
  std::map<PlaceOfBatches, SentHashes> sent;
  for (const PlaceBatches& all : batches_by_place(numbers)) {
    SentHashes& hashes = sent[place_of(all)];
    for (const BatchSeries* const series : all) {
      const std::vector<size_t> changing = changing_batches(*series);
      for (size_t i = 0; i < changing.size(); ++i) {
        hashes.try_emplace(series->hashes[changing[i]],
                           SentBefore{series->rank, i, changing.size()});
      }
    }
  }
  return sent;
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
                                 known->second.number == beginning.count;
  }
  return beginning;
}

}  // namespace

std::vector<ReadAgain> read_again(const Run& earlier_run, const Numbers& earlier,
                                  const Run& later_run, const Numbers& later) {
  const std::map<PlaceOfBatches, SentHashes> sent = sent_hashes(earlier);
  const bool is_whole = std::all_of(earlier_run.processes.begin(), earlier_run.processes.end(),
                                    [](const ProcessTrace& trace) { return is_complete(trace); });
  std::vector<ReadAgain> found;
  for (const PlaceBatches& all : batches_by_place(later)) {
    const auto before = sent.find(place_of(all));
    if (before == sent.end() || !is_whole) {
      continue;
    }
    ReadAgain again;
    for (const BatchSeries* const series : all) {
      const Beginning beginning = beginning_of(*series, before->second);
      if (beginning.count == 0 || beginning.is_same_position ||
          !is_complete(later_run.processes[series->process])) {
        continue;
      }
      if (again.ranks.empty()) {
        again.place = place_text(*series);
        again.rank = series->rank;
        again.number = beginning.first.number + 1;
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
