#include "analyzer/numbers/batches.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr size_t kRemembered = 64;
constexpr size_t kMostSlots = 4;  // different batches that one step sends from one line

constexpr size_t kFewestOfSize =
    3;  // equal batches of one size: one is an item that was read again

constexpr size_t kFewestStepsOfRow = 2;  // with gradient accumulation, steps have several batches

// kFewestSame changing batches in a row, of one rank.
struct Row {
  size_t series;  // in PlaceBatches
  size_t first;   // in its changing batches
  TimeNs begin;
  TimeNs end;
};

// torch.nn.Module.to, load_state_dict and what they call: weights.
bool sends_weights(const BatchSeries& series) {
  return std::any_of(series.frames.begin(), series.frames.end(), [](const std::string& frame) {
    return frame.starts_with("module.py Module.");
  });
}

// Whether the row is of several steps of its rank.
bool is_of_steps(std::span<const TimeNs> collectives, const BatchSeries& series,
                 std::span<const size_t> row) {
  size_t between = 0;
  for (size_t i = 0; i + 1 < row.size(); ++i) {
    const auto after =
        std::upper_bound(collectives.begin(), collectives.end(), series.times[row[i]]);
    between += after != collectives.end() && *after < series.times[row[i + 1]] ? 1 : 0;
  }
  return between >= kFewestStepsOfRow;
}

uint64_t hash_of_row(const BatchSeries& series, std::span<const size_t> row) {
  uint64_t hash = 0;
  for (const size_t index : row) {
    hash = (hash ^ series.hashes[index] ^ series.sizes[index]) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

using Rows = std::unordered_map<uint64_t, std::vector<Row>>;

void add_rows(const PlaceBatches& all, size_t number, std::span<const size_t> changing,
              const Numbers& numbers, Rows& rows) {
  const BatchSeries& series = *all[number];
  const auto collectives = numbers.collectives.find(series.rank);
  if (collectives == numbers.collectives.end()) {
    return;
  }
  for (size_t i = 0; i + kFewestSame <= changing.size(); ++i) {
    const auto row = changing.subspan(i, kFewestSame);
    if (!is_of_steps(collectives->second, series, row)) {
      continue;
    }
    rows[hash_of_row(series, row)].push_back(
        {number, i, series.times[row.front()], series.times[row.back()]});
  }
}

// Of which ranks, and where in them, rows overlap in time.  Sorts by time.
template <class See>
void each_overlap(std::vector<Row>& rows, See see) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tuple(a.begin, a.series) < std::tuple(b.begin, b.series);
  });
  for (size_t i = 0; i < rows.size();) {
    TimeNs end = rows[i].end;
    size_t next = i + 1;
    for (; next < rows.size() && rows[next].begin <= end; ++next) {
      end = std::max(end, rows[next].end);
    }
    see(std::span(rows).subspan(i, next - i));
    i = next;
  }
}

bool changes_meanwhile(const BatchSeries& series, TimeNs since, TimeNs until, size_t times,
                       const std::unordered_set<uint64_t>& but = {}) {
  const std::vector<size_t> changing = changing_batches(series);
  return static_cast<size_t>(std::count_if(changing.begin(), changing.end(), [&](size_t index) {
           return series.times[index] >= since && series.times[index] <= until &&
                  !but.contains(series.hashes[index]);
         })) >= times;
}

// Its first and last batches may be some time after those of the set.  Others who send the same at
// other times, as in an evaluation that each does by itself, have none of their own.
bool others_have_their_own(const PlaceBatches& all, const SameBatches& same) {
  const std::unordered_set<uint64_t> shared(same.series->hashes.begin(), same.series->hashes.end());
  return std::all_of(all.begin(), all.end(), [&](const BatchSeries* other) {
    return contains(same.ranks, other->rank) ||
           changes_meanwhile(*other, same.series->times[same.first], same.series->times[same.last],
                             kFewestSame - 2, shared);
  });
}

// By set of ranks, the changing batches of its first series.
using Shared = std::map<std::set<size_t>, std::set<size_t>>;

SameBatches same_of(const PlaceBatches& all, const std::set<size_t>& who,
                    const std::set<size_t>& which) {
  SameBatches same{{}, all[*who.begin()], which.size(), *which.begin(), *which.rbegin()};
  for (const size_t number : who) {
    insert(same.ranks, all[number]->rank);
  }
  return same;
}

// The shortest tail of few batches again and again; `first` the number of batches: there is none.
StuckBatches tail_of(const BatchSeries& series) {
  std::unordered_set<uint64_t> seen;
  StuckBatches found{&series, series.hashes.size(), 0, nullptr};
  for (size_t i = series.hashes.size(); i-- > 0;) {
    seen.insert(series.hashes[i]);
    if (seen.size() > kMostSlots || (found.distinct != 0 && seen.size() > found.distinct)) {
      break;
    }
    if (series.hashes.size() - i >= kFewestStuck * seen.size()) {
      found.first = i;
      found.distinct = seen.size();
    }
  }
  return found;
}

// Whether all batches of one size are equal, on whichever rank, and several of another size than
// those that are stuck show it.
bool is_told_by_size(const PlaceBatches& all, const StuckBatches& stuck) {
  const std::vector<uint64_t>& sizes = stuck.series->sizes;
  const std::set<uint64_t> stuck_sizes(sizes.begin() + static_cast<std::ptrdiff_t>(stuck.first),
                                       sizes.end());
  std::unordered_map<uint64_t, uint64_t> hash_of;  // by size
  size_t repeated = 0;
  for (const BatchSeries* const series : all) {
    for (size_t i = 0; i < series->hashes.size(); ++i) {
      const auto [known, is_new] = hash_of.try_emplace(series->sizes[i], series->hashes[i]);
      if (known->second != series->hashes[i]) {
        return false;
      }
      repeated += !is_new && !stuck_sizes.contains(series->sizes[i]) ? 1 : 0;
    }
  }
  return repeated >= kFewestOfSize;
}

// How often a new batch of `other` lies between a stuck one and that of a step later.
size_t steps_with_change(const BatchSeries& other, const StuckBatches& stuck) {
  const std::vector<size_t> changing = changing_batches(other);
  const std::vector<TimeNs>& times = stuck.series->times;
  size_t changed = 0;
  for (size_t i = stuck.first; i + stuck.distinct < times.size(); i += stuck.distinct) {
    const auto next = std::partition_point(changing.begin(), changing.end(), [&](size_t index) {
      return other.times[index] < times[i];
    });
    changed += next != changing.end() && other.times[*next] < times[i + stuck.distinct] ? 1 : 0;
  }
  return changed;
}

const BatchSeries* still_changing(const StuckBatches& stuck, const Numbers& numbers) {
  const size_t steps = (stuck.series->times.size() - 1 - stuck.first) / stuck.distinct;
  size_t most = steps / 2;
  const BatchSeries* found = nullptr;
  for (const BatchSeries& other : numbers.batches) {
    if (&other != stuck.series && other.rank == stuck.series->rank && !sends_weights(other)) {
      const size_t changed = steps_with_change(other, stuck);
      found = changed > most ? &other : found;
      most = std::max(most, changed);
    }
  }
  return found;
}

}  // namespace

std::vector<PlaceBatches> batches_by_place(const Numbers& numbers) {
  std::map<std::tuple<std::string, std::string, std::vector<std::string>>, PlaceBatches> by_place;
  for (const BatchSeries& series : numbers.batches) {
    const bool is_python = series.place && series.place->language == "python";
    if (is_python && !sends_weights(series)) {
      by_place[{place_text(series), series.callers, series.frames}].push_back(&series);
    }
  }
  std::vector<PlaceBatches> all;
  all.reserve(by_place.size());
  for (auto& [place, series] : by_place) {
    all.push_back(std::move(series));
  }
  return all;
}

std::vector<size_t> changing_batches(const BatchSeries& series) {
  std::unordered_map<uint64_t, size_t> last;  // by hash
  std::vector<size_t> changing;
  for (size_t i = 0; i < series.hashes.size(); ++i) {
    const auto [known, is_new] = last.try_emplace(series.hashes[i], i);
    if (is_new || i - known->second > kRemembered) {
      changing.push_back(i);
    }
    known->second = i;
  }
  return changing;
}

PlaceBatches own_batches(const Numbers& numbers, Rank rank) {
  PlaceBatches own;
  for (const PlaceBatches& all : batches_by_place(numbers)) {
    std::unordered_set<uint64_t> of_others;
    for (const BatchSeries* const series : all) {
      if (series->rank != rank) {
        of_others.insert(series->hashes.begin(), series->hashes.end());
      }
    }
    for (const BatchSeries* const series : all) {
      const std::vector<size_t> changing =
          series->rank == rank ? changing_batches(*series) : std::vector<size_t>();
      if (!of_others.empty() && changing.size() >= kFewestSame &&
          std::none_of(changing.begin(), changing.end(),
                       [&](size_t index) { return of_others.contains(series->hashes[index]); })) {
        own.push_back(series);
      }
    }
  }
  return own;
}

bool sent_different_data(const Numbers& numbers, Rank a, Rank b, TimeNs until) {
  const auto hashes_of = [&](const PlaceBatches& all, Rank rank) {
    std::set<uint64_t> hashes;
    for (const BatchSeries* const series : all) {
      for (const size_t index :
           series->rank == rank ? changing_batches(*series) : std::vector<size_t>()) {
        if (series->times[index] < until) {
          hashes.insert(series->hashes[index]);
        }
      }
    }
    return hashes;
  };
  for (const PlaceBatches& all : batches_by_place(numbers)) {
    const std::set<uint64_t> of_a = hashes_of(all, a);
    const std::set<uint64_t> of_b = hashes_of(all, b);
    const bool any_same =
        std::any_of(of_a.begin(), of_a.end(), [&](uint64_t hash) { return of_b.contains(hash); });
    if (!any_same && of_a.size() >= kFewestSame && of_b.size() >= kFewestSame) {
      return true;
    }
  }
  return false;
}

std::vector<SameBatches> same_batches(const PlaceBatches& all, const Numbers& numbers) {
  Rows rows;
  std::vector<std::vector<size_t>> changing;
  changing.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    changing.push_back(changing_batches(*all[i]));
    add_rows(all, i, changing.back(), numbers, rows);
  }
  Shared shared;
  for (auto& [hash, same] : rows) {
    each_overlap(same, [&](std::span<const Row> overlap) {
      std::set<size_t> who;
      for (const Row& row : overlap) {
        who.insert(row.series);
      }
      const auto first = std::find_if(overlap.begin(), overlap.end(),
                                      [&](const Row& row) { return row.series == *who.begin(); });
      for (size_t i = 0; who.size() > 1 && i < kFewestSame; ++i) {
        shared[who].insert(changing[first->series][first->first + i]);
      }
    });
  }
  std::vector<SameBatches> found;
  for (const auto& [who, which] : shared) {
    SameBatches same = same_of(all, who, which);
    if (others_have_their_own(all, same)) {
      found.push_back(std::move(same));
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const SameBatches& a, const SameBatches& b) { return a.count > b.count; });
  return found;
}

std::vector<StuckBatches> stuck_batches(const PlaceBatches& all, const Numbers& numbers) {
  std::vector<StuckBatches> found;
  for (const BatchSeries* const series : all) {
    StuckBatches tail = tail_of(*series);
    if (tail.distinct == 0) {
      continue;
    }
    const std::vector<size_t> changing = changing_batches(*series);
    const auto before = static_cast<size_t>(std::count_if(
        changing.begin(), changing.end(), [&](size_t index) { return index <= tail.first; }));
    const bool others_change = std::all_of(all.begin(), all.end(), [&](const BatchSeries* other) {
      return other == series || changes_meanwhile(*other, series->times[tail.first] + 1,
                                                  series->times.back(), kFewestStuck);
    });
    if (before > kFewestSame && all.size() > 1 && others_change && !is_told_by_size(all, tail)) {
      tail.still_changing = still_changing(tail, numbers);
      found.push_back(tail);
    }
  }
  return found;
}

}  // namespace traintrace
