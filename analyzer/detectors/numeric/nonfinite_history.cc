#include "analyzer/detectors/numeric/nonfinite_history.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/finite_gradients.h"

namespace traintrace {
namespace {

bool has_nonfinite(std::span<const Check> parts) {
  return std::any_of(parts.begin(), parts.end(), holds_nonfinite);
}

// What FSDP pads the last shards with may be anything, and is not used: NaN in the last parts alone
// say nothing.
bool is_padding(std::span<const Check> parts) {
  const auto first = std::find_if(parts.begin(), parts.end(), holds_nonfinite);
  return parts.front().operation == format::kCheckedReduceScatter && first != parts.begin() &&
         std::all_of(first, parts.end(), holds_nonfinite);
}

// Data whose NaN mean that something is wrong: gradients and what is computed layer by layer.
// Maxima and masks may be infinite, and single numbers may be anything.
bool shows_a_defect(std::span<const Check> parts) {
  const Check& first = parts.front();
  const WholeTally all = whole(parts);
  const bool passes_on = first.operation == format::kCheckedAllGather ||
                         first.operation == format::kCheckedAllToAll ||
                         first.operation == format::kCheckedSend;
  return is_real(first.type) && all.count > kFewestElements && !is_padding(parts) &&
         (is_sum(first) ? all.nonfinite() != 0 : passes_on && all.nans != 0);
}

// An output of floats that are scaled, or that are sent as bytes: a NaN in it would not be seen.
bool may_hide_nonfinite(std::span<const Check> parts) {
  return !is_real(parts.front().type) && whole(parts).count > kFewestElements;
}

// From `first` on all inputs of a bucket have such data, and the one before has none.
struct SpoiledBucket {
  const BucketInputs* inputs;
  size_t first;

  const Check& check() const { return (*inputs)[first].front(); }
  TimeNs time() const { return check().time; }
  // Until then what follows from it has to show.
  TimeNs deadline() const {
    return (*inputs)[std::min(first + kFewestNonfinite, inputs->size() - 1)].front().time;
  }
};

// As many Inf in each of them, and no NaN: a mask.  Gradients with Inf make weights Inf, and those
// the next gradients NaN, unless a loss scaler skips each of these steps.
bool is_mask(const SpoiledBucket& bucket) {
  const uint64_t infinities = whole((*bucket.inputs)[bucket.first]).infinities;
  return std::all_of(bucket.inputs->begin() + static_cast<std::ptrdiff_t>(bucket.first),
                     bucket.inputs->end(), [&](std::span<const Check> parts) {
                       const WholeTally all = whole(parts);
                       return all.nans == 0 && all.infinities == infinities;
                     });
}

// What tells whether data that are not finite do harm.
class Consequences {
 public:
  // Of all ranks.  `skips`: a loss scaler skipped the last steps.
  Consequences(const Checks& checks, std::vector<SpoiledBucket> spoiled, bool skips)
      : spoiled_(std::move(spoiled)), gradients_(checks), skips_(skips) {
    for (const SpoiledBucket& bucket : spoiled_) {
      if (are_gradients(bucket) && (!first_gradients_ || bucket.time() < *first_gradients_)) {
        first_gradients_ = bucket.time();
      }
    }
  }

  // A shard with NaN makes gradients NaN, and so does an activation with NaN those that come back.
  // A table of metrics, a mask or padding that is passed on may have NaN or Inf and harms nobody.
  bool does_harm(const SpoiledBucket& bucket) const {
    const TimeNs deadline = bucket.deadline();
    return are_gradients(bucket) || bucket.inputs->size() - bucket.first < kFewestNonfinite ||
           (first_gradients_ && *first_gradients_ <= deadline) ||
           (gradients_.count_since(deadline) < kFewestNonfinite &&
            comes_back(bucket.check(), deadline));
  }

 private:
  bool are_gradients(const SpoiledBucket& bucket) const {
    return is_sum(bucket.check()) && (skips_ || !is_mask(bucket));
  }
  bool comes_back(const Check& check, TimeNs deadline) const {
    return is_message(check.operation) &&
           std::any_of(spoiled_.begin(), spoiled_.end(), [&](const SpoiledBucket& other) {
             return is_message(other.check().operation) && other.check().rank != check.rank &&
                    other.time() <= deadline;
           });
  }

  std::vector<SpoiledBucket> spoiled_;
  FiniteGradients gradients_;
  bool skips_;
  std::optional<TimeNs> first_gradients_;
};

bool gets_data(const Check& input) {
  return input.operation == format::kCheckedAllReduce ||
         input.operation == format::kCheckedAllGather ||
         input.operation == format::kCheckedReduceScatter ||
         input.operation == format::kCheckedAllToAll;
}

// Which operation each check is of, and which bucket each operation.
struct CheckIndex {
  std::vector<uint32_t> operation_of;
  std::vector<size_t> bucket_of;  // as many as there are: none
};

// Data with NaN that a rank got, and in which bucket.
struct Brought {
  const Check* check;
  size_t bucket;  // as many as there are: in none
};

// What happened to one rank, in the order of its calls.
class RankHistory {
 public:
  RankHistory(const Checks& checks, const CheckIndex& index, Rank rank)
      : checks_(checks), index_(index) {
    const std::vector<uint32_t>& own = checks.of_rank.at(rank);
    for (size_t i = 0; i < own.size();) {
      size_t end = i + 1;
      while (end < own.size() && own[end] == own[end - 1] + 1 &&
             index.operation_of[own[end]] == index.operation_of[own[i]] &&
             checks.all[own[end]].side == checks.all[own[i]].side) {
        ++end;
      }
      see(index.operation_of[own[i]], std::span(checks.all).subspan(own[i], end - i));
      i = end;
    }
    if (const auto found = checks.unchecked.find(rank); found != checks.unchecked.end()) {
      unseen_.insert(unseen_.end(), found->second.begin(), found->second.end());
    }
    for (const auto& [bucket, inputs] : inputs_) {
      note_spoiled(inputs);
    }
  }

  const std::vector<SpoiledBucket>& spoiled() const { return spoiled_; }
  // By its own data.
  std::optional<Onset> onset(const Consequences& consequences, bool capturing) const {
    std::optional<Onset> onset;
    for (const SpoiledBucket& bucket : spoiled_) {
      if ((!onset || bucket.time() < onset->time()) && consequences.does_harm(bucket)) {
        onset = Onset{&bucket.check(), bucket.first, *bucket.inputs};
      }
    }
    return onset ? judged(std::move(*onset), capturing) : std::nullopt;
  }
  // The first data with NaN that another rank gave it; null: there are none.
  const Check* first_brought() const { return brought_.empty() ? nullptr : brought_.front().check; }

 private:
  void see(uint32_t number, std::span<const Check> parts) {
    const Check& check = parts.front();
    const std::span<const Check> operation = checks_of(checks_, checks_.operations[number]);
    if (check.side == format::kCheckedInput) {
      const auto outputs = member_side(side_of(operation, format::kCheckedOutput), check.member);
      if (outputs.empty() && gets_data(check)) {
        unseen_.push_back(check.time);
      }
      if (index_.bucket_of[number] < checks_.buckets.size()) {
        inputs_[index_.bucket_of[number]].push_back(parts);
      }
      return;
    }
    // What it gave itself is nothing that others brought it; what arrives as a message is.
    const auto own = member_side(side_of(operation, format::kCheckedInput), check.member);
    if (has_nonfinite(parts) && (is_message(check.operation) || !has_nonfinite(own))) {
      brought_.push_back({&check, index_.bucket_of[number]});
    } else if (may_hide_nonfinite(parts)) {
      unseen_.push_back(check.time);
    }
  }

  void note_spoiled(const BucketInputs& inputs) {
    size_t first = inputs.size();
    while (first > 0 && shows_a_defect(inputs[first - 1])) {
      --first;
    }
    if (first > 0 && first < inputs.size() &&
        (!has_nonfinite(inputs[first - 1]) || is_padding(inputs[first - 1]))) {
      spoiled_.push_back({&inputs, first});
    }
  }

  // None: others had brought it such data before.
  std::optional<Onset> judged(Onset onset, bool capturing) const {
    // What was brought long before and did no harm has none: a step that a loss scaler skipped.
    const size_t forgotten = onset.number - std::min(onset.number, kHarmForgotten);
    const TimeNs since = forgotten == 0 ? 0 : onset.inputs[forgotten].front().time;
    const auto counts = [&](TimeNs time) { return time >= since && time < onset.time(); };
    if (std::any_of(brought_.begin(), brought_.end(), [&](const Brought& brought) {
          return counts(brought.check->time) && !is_brought_as_ever(brought, onset);
        })) {
      return std::nullopt;
    }
    onset.certain = !capturing && onset.number >= kFewestNonfinite &&
                    std::none_of(unseen_.begin(), unseen_.end(), counts);
    return onset;
  }

  // The same is passed on since several steps before, and the rank's own data stayed finite: it is
  // padding.
  bool is_brought_as_ever(const Brought& brought, const Onset& onset) const {
    if (is_sum(*brought.check) || brought.bucket >= checks_.buckets.size()) {
      return false;
    }
    const auto first = std::find_if(brought_.begin(), brought_.end(), [&](const Brought& other) {
      return other.bucket == brought.bucket;
    });
    size_t finite = 0;
    for (size_t i = onset.number; i-- > 0 && onset.inputs[i].front().time > first->check->time;) {
      if (shows_a_defect(onset.inputs[i])) {
        return false;
      }
      ++finite;
    }
    return finite >= kFewestNonfinite;
  }

  const Checks& checks_;
  const CheckIndex& index_;
  std::map<size_t, BucketInputs> inputs_;  // by bucket
  std::vector<Brought> brought_;           // by time
  std::vector<TimeNs> unseen_;
  std::vector<SpoiledBucket> spoiled_;
};

CheckIndex index_of(const Checks& checks) {
  CheckIndex index;
  index.operation_of.resize(checks.all.size());
  index.bucket_of.resize(checks.operations.size(), checks.buckets.size());
  for (uint32_t i = 0; i < checks.operations.size(); ++i) {
    const CheckedOperation& operation = checks.operations[i];
    std::fill_n(index.operation_of.begin() + static_cast<std::ptrdiff_t>(operation.first),
                operation.count, i);
  }
  for (size_t i = 0; i < checks.buckets.size(); ++i) {
    for (const size_t number : checks.buckets[i].operations) {
      index.bucket_of[number] = i;
    }
  }
  return index;
}

}  // namespace

NonfiniteRun nonfinite_histories(const Checks& checks, bool skips) {
  NonfiniteRun found;
  const CheckIndex index = index_of(checks);
  std::map<Rank, RankHistory> histories;
  std::vector<SpoiledBucket> spoiled;
  for (const auto& [rank, own] : checks.of_rank) {
    const RankHistory& history = histories.try_emplace(rank, checks, index, rank).first->second;
    spoiled.insert(spoiled.end(), history.spoiled().begin(), history.spoiled().end());
  }
  const Consequences consequences(checks, std::move(spoiled), skips);
  for (const auto& [rank, history] : histories) {
    if (const auto onset = history.onset(consequences, contains(checks.capturing, rank))) {
      found.origins.emplace(rank, *onset);
    } else if (history.first_brought() != nullptr) {
      insert(found.receivers, rank);
    }
  }
  return found;
}

}  // namespace traintrace
