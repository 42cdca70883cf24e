// The rank whose data became NaN or infinite before any other had sent it such data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/finite_gradients.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

using BucketInputs =
    std::vector<std::span<const Check>>;  // of one rank, by time: all parts of each

// A rank's data from which on it gave nothing finite of that bucket any more.
struct Onset {
  const Check* check = nullptr;
  size_t number = 0;  // in `inputs`
  BucketInputs inputs;
  bool certain = false;  // all that brought it data before was checked, for some steps

  TimeNs time() const { return check->time; }
  size_t length() const { return inputs.size() - number; }
  bool is_lasting() const { return length() >= kFewestNonfinite; }
};

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

struct NonfiniteRun {
  std::map<Rank, Onset> origins;
  Ranks receivers;  // which first got it from others
};

NonfiniteRun histories_of(const Checks& checks, bool skips) {
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

// Whether the job failed, as one does that raises where its loss is NaN.
bool has_failed(const Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const ProcessTrace& trace) {
    return trace.exit_kind != format::kNotExited && trace.exit_status != 0;
  });
}

// In all of the last inputs before, or fewer.
std::string course_before(const Onset& onset) {
  constexpr size_t kNewest = 5;
  const size_t before = std::min(onset.number, kRiseWithin);
  double earlier = 0;
  double newest = 0;
  for (size_t i = onset.number - before; i < onset.number; ++i) {
    const double norm = whole(onset.inputs[i]).norm();
    double& most = i + kNewest >= onset.number ? newest : earlier;
    most = std::max(most, norm);
  }
  if (before <= kNewest) {
    return "";
  }
  return earlier > 0 && newest >= kRise * earlier
             ? fmt::format("its norm rose from {:.4g} to {:.4g} within the last {}: a blow-up",
                           earlier, newest, before)
             : fmt::format("its norm before was at most {:.4g}: sudden", std::max(earlier, newest));
}

std::string onset_line(const Run& run, Rank rank, const Onset& onset) {
  const WholeTally all = whole(onset.inputs[onset.number]);
  const std::string course = course_before(onset);
  return fmt::format("rank {}: {} in its input of {}{}{}{}", rank.value,
                     nonfinite_text(all.nans, all.infinities), operation_text(run, *onset.check),
                     onset.number == 0   ? ""
                     : onset.number == 1 ? "; the one before was finite"
                                         : fmt::format("; the {} before were finite", onset.number),
                     course.empty() ? "" : "; ", course);
}

Ranks ranks_of(const std::map<Rank, Onset>& origins) {
  Ranks ranks;
  for (const auto& [rank, onset] : origins) {
    ranks.push_back(rank);
  }
  return ranks;
}

// All members of the communicator in the same operation.
bool is_run_wide(const Run& run, const std::map<Rank, Onset>& origins) {
  const Check& first = *origins.begin()->second.check;
  return origins.size() > 1 && std::ssize(origins) == run.communicators[first.communicator].size &&
         std::all_of(origins.begin(), origins.end(), [&](const auto& origin) {
           return origin.second.check->communicator == first.communicator &&
                  origin.second.check->sequence == first.sequence;
         });
}

double norm_at(const Onset& onset, size_t number) {
  return whole(onset.inputs[number]).norm();
}

// The first input shortly before whose norm rose, and stayed so; `number` of the onset: none.
size_t rise_of(const Onset& onset) {
  size_t rise = onset.number;
  double usual = 0;
  for (size_t i = 0; i < onset.number; ++i) {
    if (i >= kFewestNonfinite && i + kRiseWithin >= onset.number && usual > 0 &&
        norm_at(onset, i) >= kRise * usual) {
      rise = std::min(rise, i);
    } else {
      rise = onset.number;
      usual = std::max(usual, norm_at(onset, i));
    }
  }
  return rise;
}

// The rank whose input alone rose first, far above those of all others: what all of them compute
// since is a consequence.  None: they rose together, or all of a sudden.
std::optional<Rank> blown_up_first(const std::map<Rank, Onset>& origins) {
  const auto rises_later = [](const auto& a, const auto& b) {
    return rise_of(a.second) < rise_of(b.second);
  };
  const auto first = std::min_element(origins.begin(), origins.end(), rises_later);
  const size_t rise = rise_of(first->second);
  const bool alone = std::all_of(origins.begin(), origins.end(), [&](const auto& origin) {
    return origin.first == first->first ||
           (rise_of(origin.second) > rise && origin.second.number == first->second.number &&
            norm_at(first->second, rise) >= kNormAboveOthers * norm_at(origin.second, rise));
  });
  return origins.size() > 1 && rise < first->second.number && alone ? std::optional(first->first)
                                                                    : std::nullopt;
}

std::string blow_up_line(const Run& run, Rank rank, const Onset& onset) {
  const size_t rise = rise_of(onset);
  return fmt::format("rank {} alone gave numbers with a norm of {:.4g} to {} before, {} earlier",
                     rank.value, norm_at(onset, rise),
                     operation_text(run, onset.inputs[rise].front()), onset.number - rise);
}

std::string origin_title(const Run& run, const NonfiniteRun& found, const Onset& first) {
  const std::string what = operation_text(run, *first.check);
  const Ranks ranks = ranks_of(found.origins);
  if (is_run_wide(run, found.origins)) {
    const auto blown_up = blown_up_first(found.origins);
    return fmt::format(
        "NaN or Inf in what all of {} gave {}, in the same operation{}", ranks_text(ranks), what,
        blown_up ? fmt::format(", after the numbers of rank {} alone had blown up", blown_up->value)
                 : "");
  }
  const WholeTally all = whole(first.inputs[first.number]);
  return ranks.size() == 1
             ? fmt::format("{} gave {} to {}, {}", ranks_text(ranks),
                           nonfinite_text(all.nans, all.infinities), what,
                           first.certain ? "before any rank had sent it one"
                                         : "as far as is known before any rank had sent it one")
             : fmt::format("{} gave NaN or Inf independently of each other, first to {}",
                           ranks_text(ranks), what);
}

constexpr const char* kRunWideAdvice =
    "not one rank's: check the learning rate, the loss and the data of that step, and what changed "
    "in the code";
constexpr const char* kOriginAdvice =
    "the recording does not tell why: check the data of that step on that rank, its loss, and with "
    "torch.autograd.set_detect_anomaly(True) the operation that made it";
constexpr const char* kUncheckedAdvice =
    "not all that the rank received was checked, so it may have come from another one: record with "
    "TRAINTRACE_PAYLOAD=check without graphs";

// As many in each input since, of all ranks, and not all elements of it.
bool is_like_padding(const std::map<Rank, Onset>& origins) {
  const Onset& first = origins.begin()->second;
  const uint64_t nans = whole(first.inputs[first.number]).nans;
  return std::all_of(origins.begin(), origins.end(), [&](const auto& origin) {
    const Onset& onset = origin.second;
    return std::all_of(onset.inputs.begin() + static_cast<std::ptrdiff_t>(onset.number),
                       onset.inputs.end(), [&](std::span<const Check> parts) {
                         const WholeTally all = whole(parts);
                         return all.nans == nans && all.infinities == 0 && all.count > nans;
                       });
  });
}

// What is a NaN in the weights is one in every loss that follows.
void judge_by_values(const Numbers& numbers, const NonfiniteRun& found, Finding& finding) {
  TimeNs last = 0;
  for (const auto& [rank, onset] : found.origins) {
    last = std::max(last, onset.time());
  }
  const size_t finite = is_like_padding(found.origins) ? finite_values_since(numbers, last) : 0;
  if (finite >= kFewestOfType) {
    finding.severity = Severity::kInfo;
    finding.certainty = Certainty::kPossible;
    finding.culprits.clear();
    finding.evidence.push_back(
        fmt::format("as many in each of the operations that follow, and the numbers that the job "
                    "fetches stay finite: {} in a row",
                    finite));
    finding.advice =
        "nobody seems to use them: padding, or steps that the job leaves out; fill what is padded "
        "with zeros, so that a NaN that matters is seen";
  }
}

void judge_origins(const Run& run, const NonfiniteRun& found, Finding& finding) {
  const bool certain = std::all_of(found.origins.begin(), found.origins.end(),
                                   [](const auto& origin) { return origin.second.certain; });
  const bool lasting = std::any_of(found.origins.begin(), found.origins.end(),
                                   [](const auto& origin) { return origin.second.is_lasting(); });
  finding.certainty = !certain  ? Certainty::kPossible
                      : lasting ? Certainty::kProof
                                : Certainty::kLikely;
  finding.severity = finding.certainty == Certainty::kProof ? Severity::kError : Severity::kWarning;
  finding.sides = {ranks_of(found.origins)};
  if (certain && found.origins.size() == 1) {
    finding.culprits = finding.sides.front();
  }
  if (!is_run_wide(run, found.origins)) {
    finding.advice = certain ? kOriginAdvice : kUncheckedAdvice;
  } else if (const auto blown_up = blown_up_first(found.origins); blown_up && certain) {
    finding.certainty = Certainty::kLikely;
    finding.severity = Severity::kWarning;
    finding.culprits = {*blown_up};
    finding.evidence.push_back(blow_up_line(run, *blown_up, found.origins.at(*blown_up)));
    finding.advice = kOriginAdvice;
  } else {
    finding.advice = kRunWideAdvice;
  }
}

}  // namespace

bool ended_at_nonfinite(const Numbers& numbers) {
  return std::any_of(
      numbers.scalars.begin(), numbers.scalars.end(), [](const ScalarSeries& series) {
        const auto is_bad = [&](uint64_t value) { return is_nonfinite(series.type.type, value); };
        const auto first = std::find_if(series.values.begin(), series.values.end(), is_bad);
        return first != series.values.end() &&
               static_cast<size_t>(first - series.values.begin()) >= kFewestNonfinite &&
               std::all_of(first, series.values.end(), is_bad);
      });
}

std::optional<Finding> first_nonfinite_input(const Run& run, const Numbers& numbers,
                                             bool has_scaler) {
  NonfiniteRun found = histories_of(numbers.checks, skips_at_last(numbers));
  // A loss scaler skips single steps; without one, a job that failed at once, or ended as soon as
  // it had fetched such a number, has had no more.
  const bool single_counts = !has_scaler && (has_failed(run) || ended_at_nonfinite(numbers));
  std::erase_if(found.origins,
                [&](const auto& origin) { return !origin.second.is_lasting() && !single_counts; });
  if (found.origins.empty()) {
    return std::nullopt;
  }
  const Onset& first = std::min_element(found.origins.begin(), found.origins.end(),
                                        [](const auto& a, const auto& b) {
                                          return a.second.time() < b.second.time();
                                        })
                           ->second;
  Finding finding = check_finding(run, numbers.checks, "numeric.first-nonfinite", *first.check);
  judge_origins(run, found, finding);
  finding.title = origin_title(run, found, first);
  for (const auto& [rank, onset] : found.origins) {
    finding.evidence.push_back(onset_line(run, rank, onset));
  }
  finding.evidence = cut(std::move(finding.evidence));
  if (is_run_wide(run, found.origins) && !has_scaler) {
    judge_by_values(numbers, found, finding);
  }
  if (!found.receivers.empty()) {
    finding.sides.push_back(found.receivers);
    finding.evidence.push_back(
        fmt::format("{} first got it from others", ranks_text(found.receivers)));
  }
  finding.values = {{"since_ns", elapsed(run.start, first.time())},
                    {"finite_count", static_cast<int64_t>(first.number)},
                    {"nonfinite_count", static_cast<int64_t>(first.length())}};
  return finding;
}

}  // namespace traintrace
