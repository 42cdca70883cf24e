#include "analyzer/numbers/numbers_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/checks_diff.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_complete(const Run& run, const ValueSeries& series) {
  return is_complete(run.processes[series.process]);
}

auto key_of(const ScalarSeries& series) {
  return std::tuple(place_text(series), series.callers, series.frames, series.bytes, series.rank);
}
auto key_of(const BatchSeries& series) {
  return std::tuple(place_text(series), series.callers, series.frames, series.rank);
}

std::optional<size_t> first_difference(const ScalarSeries& a, const ScalarSeries& b) {
  const auto [at, other] =
      std::mismatch(a.values.begin(), a.values.end(), b.values.begin(), b.values.end());
  const bool ends = at == a.values.end() || other == b.values.end();
  return ends ? std::nullopt : std::optional(static_cast<size_t>(at - a.values.begin()));
}
std::optional<size_t> first_difference(const BatchSeries& a, const BatchSeries& b) {
  for (size_t i = 0; i < std::min(a.hashes.size(), b.hashes.size()); ++i) {
    if (a.hashes[i] != b.hashes[i] || a.sizes[i] != b.sizes[i]) {
      return i;
    }
  }
  return std::nullopt;
}

void set_values(const ScalarSeries& a, const ScalarSeries& b, size_t index, ValueDiff& diff) {
  diff.a = text_at(a, index);
  diff.b = text_at(b, index);
  const double number_a = number_of(a.type.type, a.values[index], a.bytes);
  const double number_b = number_of(b.type.type, b.values[index], b.bytes);
  // Written so that a NaN is a difference.
  diff.is_rounding = std::abs(number_a - number_b) <= kReplicaRounding * std::abs(number_a);
}
void set_values(const BatchSeries&, const BatchSeries&, size_t, ValueDiff& diff) {
  diff.kind = DiffedValue::kBatch;
}

class Comparison {
 public:
  Comparison(const Run& a, const Run& b) : run_a_(a), run_b_(b) {}

  template <class Series>
  void compare(const std::vector<Series>& all_a, const std::vector<Series>& all_b) {
    std::map<decltype(key_of(all_b.front())), const Series*> by_key;
    for (const Series& series : all_b) {
      by_key.emplace(key_of(series), &series);
    }
    for (const Series& series : all_a) {
      const auto other = by_key.find(key_of(series));
      if (other != by_key.end()) {
        compare(series, *other->second);
      }
    }
  }

  void compare(const Checks& a, const Checks& b) {
    if (a.all.empty() || b.all.empty()) {
      return;
    }
    const auto whole = [](const Run& run) {
      return std::all_of(run.processes.begin(), run.processes.end(),
                         [](const ProcessTrace& trace) { return is_complete(trace); });
    };
    if (!whole(run_a_) || !whole(run_b_)) {
      ++diff_.incomplete;
      return;
    }
    ChecksDiff found = diff_checks(run_a_, a, run_b_, b);
    diff_.same_operations = found.same;
    if (found.first) {
      diff_.differences.push_back(std::move(*found.first));
    }
  }

  NumbersDiff result() {
    std::stable_sort(diff_.differences.begin(), diff_.differences.end(),
                     [](const ValueDiff& a, const ValueDiff& b) { return a.since_a < b.since_a; });
    return std::move(diff_);
  }

 private:
  template <class Series>
  void compare(const Series& a, const Series& b) {
    if (!is_complete(run_a_, a) || !is_complete(run_b_, b)) {
      ++diff_.incomplete;
      return;
    }
    const std::optional<size_t> index = first_difference(a, b);
    if (!index) {
      ++diff_.same;
      return;
    }
    ValueDiff one;
    one.ranks = {a.rank};
    one.place = place_text(a);
    one.number = *index + 1;
    one.since_a = elapsed(run_a_.start, a.times[*index]);
    one.since_b = elapsed(run_b_.start, b.times[*index]);
    set_values(a, b, *index, one);
    add(std::move(one));
  }

  void add(ValueDiff one) {
    const auto like = std::find_if(
        diff_.differences.begin(), diff_.differences.end(), [&](const ValueDiff& other) {
          return other.kind == one.kind && other.place == one.place && other.number == one.number;
        });
    if (like == diff_.differences.end()) {
      diff_.differences.push_back(std::move(one));
      return;
    }
    insert(like->ranks, one.ranks.front());
    if (one.since_a < like->since_a) {
      one.ranks = like->ranks;
      *like = std::move(one);
    }
  }

  const Run& run_a_;
  const Run& run_b_;
  NumbersDiff diff_;
};

// The same data, and yet other numbers from the first on, by more than rounding: it begins with
// other weights.
bool has_other_weights(const NumbersDiff& diff) {
  const auto is_of_data = [](const ValueDiff& one) { return one.kind == DiffedValue::kBatch; };
  return std::none_of(diff.differences.begin(), diff.differences.end(), is_of_data) &&
         std::any_of(diff.differences.begin(), diff.differences.end(), [](const ValueDiff& one) {
           return one.kind == DiffedValue::kScalar && one.number == 1 && !one.is_rounding;
         });
}

}  // namespace

bool is_complete(const ProcessTrace& trace) {
  return std::none_of(trace.losses.begin(), trace.losses.end(), [](const LossText& loss) {
    return loss.stat == "ring-overwritten" || loss.stat == "ring-shortened";
  });
}

NumbersDiff diff_numbers(const Run& run_a, const Numbers& a, const Run& run_b, const Numbers& b) {
  Comparison comparison(run_a, run_b);
  comparison.compare(a.batches, b.batches);
  comparison.compare(a.scalars, b.scalars);
  comparison.compare(a.checks, b.checks);
  NumbersDiff diff = comparison.result();
  diff.later = run_a.start > run_b.start ? DiffedRun::kA : DiffedRun::kB;
  const auto read_by_later = [&](SameStart same_start) {
    return diff.later == DiffedRun::kB ? read_again(sent_batches(run_a, a), run_b, b, same_start)
                                       : read_again(sent_batches(run_b, b), run_a, a, same_start);
  };
  diff.again = read_by_later(SameStart::kAnotherRun);
  if (diff.again.empty() && has_other_weights(diff)) {
    diff.again = read_by_later(SameStart::kReadAgain);
    diff.again_from_start = !diff.again.empty();
  }
  return diff;
}

}  // namespace traintrace
