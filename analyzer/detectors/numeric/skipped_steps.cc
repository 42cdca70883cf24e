// Steps that a loss scaler skipped, because a gradient was not finite: now and then as it should
// be, again and again if the scale finds no value that works.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Where frameworks ask whether a gradient was not finite (found_inf), one number for each step.
struct Asker {
  std::string_view file;
  std::string_view function;
};
constexpr Asker kAskers[] = {
    {"grad_scaler.py ", "_maybe_opt_step"},                      // torch.amp.GradScaler
    {"sharded_grad_scaler.py ", "unscale_"},                     // of FSDP, reduces the flag
    {"optimizer.py ", "_unscale_main_grads_and_check_for_nan"},  // Megatron-LM
    {"stage_1_and_2.py ", "has_overflow"},                       // DeepSpeed
    {"stage3.py ", "has_overflow"},
};

bool asks_for_overflow(const std::vector<std::string>& frames) {
  return std::any_of(std::begin(kAskers), std::end(kAskers), [&](const Asker& asker) {
    return std::any_of(frames.begin(), frames.end(), [&](const std::string& frame) {
      return frame.starts_with(asker.file) && frame.find(asker.function) != std::string::npos;
    });
  });
}

struct Skips {
  const ScalarSeries* series;
  size_t all = 0;
  size_t any_row = 0;      // the longest, from the first step on
  size_t late = 0;         // after the scale has settled
  size_t longest_row = 0;  // of those
  size_t first_of_row = 0;
  size_t first_of_any_row = 0;

  // After the first steps, unless it is more than any scale explains.
  size_t in_a_row() const { return any_row >= kSkipsOfAnyScale ? any_row : longest_row; }
  size_t steps() const { return series->values.size(); }
  size_t late_steps() const { return steps() - std::min(steps(), kScaleSettles); }
  bool collapsed() const {
    const bool often = late >= kSkipsInARow && late * 100 > kSkipShare * late_steps();
    return longest_row >= kSkipsInARow || any_row >= kSkipsOfAnyScale || often;
  }
};

Skips skips_of(const ScalarSeries& series) {
  Skips skips{&series};
  size_t row = 0;
  size_t row_of_any = 0;
  for (size_t i = 0; i < series.values.size(); ++i) {
    const bool skipped = series.values[i] != 0;
    skips.all += skipped ? 1 : 0;
    row_of_any = skipped ? row_of_any + 1 : 0;
    if (row_of_any > skips.any_row) {
      skips.any_row = row_of_any;
      skips.first_of_any_row = i + 1 - row_of_any;
    }
    if (i < kScaleSettles) {
      continue;
    }
    skips.late += skipped ? 1 : 0;
    row = skipped ? row + 1 : 0;
    if (row > skips.longest_row) {
      skips.longest_row = row;
      skips.first_of_row = i + 1 - row;
    }
  }
  return skips;
}

std::string skips_line(const Skips& skips) {
  return fmt::format(
      "rank {}: {} of {} steps skipped; after the first {}: {} of {}, at most {} in a row",
      skips.series->rank.value, skips.all, skips.steps(), std::min(skips.steps(), kScaleSettles),
      skips.late, skips.late_steps(), skips.longest_row);
}

// On how many ranks the flag was set before it was reduced, by rank; of the operations in which it
// was.
struct SetFlags {
  std::map<Rank, int64_t> by_rank;
  int64_t operations = 0;
};

bool is_flag(const Checks& checks, const CheckedOperation& operation) {
  constexpr uint64_t kMostFlags = 4;  // one per device of the process
  const Check& first = checks.all[operation.first];
  return first.operation == format::kCheckedAllReduce && first.count <= kMostFlags &&
         asks_for_overflow(checks.sites[first.site].frames);
}

bool is_set(const Check& flag) {
  return holds_nonfinite(flag) || flag.tally.largest != 0;
}

SetFlags set_flags(const Checks& checks) {
  SetFlags flags;
  for (const CheckedOperation& operation : checks.operations) {
    if (!operation.agrees || !is_flag(checks, operation)) {
      continue;
    }
    bool any = false;
    for (const Check& check : side_of(checks_of(checks, operation), format::kCheckedInput)) {
      const bool set = is_set(check);
      flags.by_rank[check.rank] += set ? 1 : 0;
      any = any || set;
    }
    flags.operations += any ? 1 : 0;
  }
  return flags;
}

std::vector<std::string> flag_lines(const SetFlags& flags) {
  std::vector<std::string> lines;
  for (const auto& [rank, count] : flags.by_rank) {
    if (count != 0) {
      lines.push_back(fmt::format(
          "rank {}: its own gradients were not finite in {} of {} steps in which those of any rank "
          "were not",
          rank.value, count, flags.operations));
    }
  }
  return lines;
}

// The one rank that the gradients of most skipped steps come from, and where they were first seen.
struct Spoiler {
  Rank rank;
  int64_t count = 0;  // operations in which it alone had such data
  const Check* first = nullptr;
};

// Of `operations` whose inputs are known of all ranks.
template <class IsBad>
std::optional<Spoiler> only_spoiler(const Run& run, const Checks& checks,
                                    const std::vector<const CheckedOperation*>& operations,
                                    IsBad is_bad) {
  Spoiler spoiler;
  for (const CheckedOperation* const operation : operations) {
    const std::span<const Check> inputs =
        side_of(checks_of(checks, *operation), format::kCheckedInput);
    Ranks bad;
    const Check* first = nullptr;
    for (const Check& check : inputs) {
      if (is_bad(check)) {
        insert(bad, check.rank);
        first = first == nullptr ? &check : first;
      }
    }
    if (bad.empty() || !is_complete(run, inputs)) {
      continue;
    }
    if (bad.size() > 1 || (spoiler.count != 0 && bad.front() != spoiler.rank)) {
      return std::nullopt;
    }
    spoiler.rank = bad.front();
    spoiler.first =
        spoiler.first == nullptr || first->time < spoiler.first->time ? first : spoiler.first;
    ++spoiler.count;
  }
  return spoiler.count >= static_cast<int64_t>(kSkipsInARow) ? std::optional(spoiler)
                                                             : std::nullopt;
}

// From what one rank saw on: other ranks may be there long before it.
struct Since {
  Rank rank;
  TimeNs time;
};

bool is_since(const Checks& checks, const CheckedOperation& operation, const Since& since) {
  const std::span<const Check> all = checks_of(checks, operation);
  const auto own = std::find_if(all.begin(), all.end(),
                                [&](const Check& check) { return check.rank == since.rank; });
  return (own == all.end() ? operation.time : own->time) >= since.time;
}

// By the flag before it is reduced; else by what ranks give to the sums of gradients.
std::optional<Spoiler> spoiler_of(const Run& run, const Checks& checks, const Since& since) {
  std::vector<const CheckedOperation*> flags;
  std::vector<const CheckedOperation*> gradients;
  for (const CheckedOperation& operation : checks.operations) {
    if (operation.agrees && is_flag(checks, operation) && is_since(checks, operation, since)) {
      flags.push_back(&operation);
    }
  }
  for (const CheckedBucket& bucket : checks.buckets) {
    for (const size_t number : bucket.operations) {
      if (is_of_gradients(checks, bucket) && is_since(checks, checks.operations[number], since)) {
        gradients.push_back(&checks.operations[number]);
      }
    }
  }
  const auto by_flag = only_spoiler(run, checks, flags, is_set);
  return by_flag || !flags.empty() ? by_flag
                                   : only_spoiler(run, checks, gradients, holds_nonfinite);
}

Finding skips_finding(std::string_view code, const std::vector<Skips>& all, const Skips& worst) {
  Finding finding = numeric_finding(code);
  Ranks ranks;
  for (const Skips& skips : all) {
    insert(ranks, skips.series->rank);
    finding.evidence.push_back(skips_line(skips));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.sides = {ranks};
  if (worst.series->place) {
    finding.where.push_back(*worst.series->place);
  }
  finding.values = {{"skipped_count", static_cast<int64_t>(worst.all)},
                    {"step_count", static_cast<int64_t>(worst.steps())},
                    {"in_a_row_count", static_cast<int64_t>(worst.in_a_row())}};
  return finding;
}

Finding collapse(const Run& run, const std::vector<Skips>& all, const Skips& worst) {
  Finding finding = skips_finding("numeric.scale-collapsed", all, worst);
  const bool late = worst.longest_row >= kSkipsInARow;
  const auto in_a_row = [&](size_t row, size_t first) {
    return fmt::format(", {} of them in a row from +{} on", row,
                       duration_text(elapsed(run.start, worst.series->times[first])));
  };
  const std::string since = late ? in_a_row(worst.longest_row, worst.first_of_row)
                            : worst.any_row >= kSkipsOfAnyScale
                                ? in_a_row(worst.any_row, worst.first_of_any_row)
                                : "";
  const std::string share = late || worst.any_row < kSkipsOfAnyScale
                                ? fmt::format("{} of {} steps after the first {}", worst.late,
                                              worst.late_steps(), kScaleSettles)
                                : fmt::format("{} of {} steps", worst.all, worst.steps());
  finding.certainty = Certainty::kLikely;
  finding.title =
      fmt::format("{} skip optimizer steps again and again, as gradients are not finite: {}{}",
                  ranks_text(finding.sides.front()), finding.sides.front().size() == 1 ? "s" : "",
                  share, since);
  finding.advice =
      "find the gradient that is not finite at any scale: check the data and the loss of that "
      "step on each rank; a lower learning rate or bfloat16 instead of half precision";
  return finding;
}

void name_spoiler(const Run& run, const Checks& checks, const Skips& worst, Finding& finding) {
  const bool late = worst.longest_row >= kSkipsInARow;
  // The gradients of a step are reduced before its flag is fetched.
  const size_t first = late ? worst.first_of_row : worst.first_of_any_row;
  const TimeNs since = first == 0 ? 0 : worst.series->times[first - 1];
  const auto spoiler = spoiler_of(run, checks, {worst.series->rank, since});
  if (!spoiler) {
    return;
  }
  finding.culprits = {spoiler->rank};
  finding.title +=
      fmt::format("; those of rank {} alone, {} times", spoiler->rank.value, spoiler->count);
  if (const auto& place = checks.sites[spoiler->first->site].place) {
    finding.where.insert(finding.where.begin(), *place);
  }
  finding.evidence.insert(finding.evidence.begin(),
                          fmt::format("rank {} was first with {}", spoiler->rank.value,
                                      operation_text(run, *spoiler->first)));
  finding.advice =
      "check the data and the loss of that rank; if it is always the same one, and its data are "
      "right, run the step on another GPU";
}

}  // namespace

std::vector<Finding> find_skipped_steps(const Run& run, const Numbers& numbers) {
  std::vector<Skips> all;
  for (const ScalarSeries& series : numbers.scalars) {
    const Skips skips = asks_for_overflow(series.frames) ? skips_of(series) : Skips{&series};
    if (skips.all != 0) {
      all.push_back(skips);
    }
  }
  if (all.empty()) {
    return {};
  }
  const std::vector<std::string> flags = flag_lines(set_flags(numbers.checks));
  const auto with_flags = [&](Finding finding) {
    finding.evidence.insert(finding.evidence.begin(), flags.begin(), flags.end());
    finding.evidence = cut(std::move(finding.evidence));
    return std::vector<Finding>{std::move(finding)};
  };
  const Skips& worst =
      *std::max_element(all.begin(), all.end(), [](const Skips& a, const Skips& b) {
        return std::tuple(a.collapsed(), a.late, a.all) < std::tuple(b.collapsed(), b.late, b.all);
      });
  if (worst.collapsed()) {
    Finding finding = collapse(run, all, worst);
    name_spoiler(run, numbers.checks, worst, finding);
    return with_flags(std::move(finding));
  }
  Finding finding = skips_finding("numeric.overflow-skipped", all, worst);
  finding.title = fmt::format(
      "a loss scaler skipped {} of {} optimizer steps of {}, as it does when it tries a higher "
      "scale",
      worst.all, worst.steps(), ranks_text(finding.sides.front()));
  finding.advice = "nothing to do";
  return with_flags(std::move(finding));
}

bool skips_at_last(const Numbers& numbers) {
  return std::any_of(
      numbers.scalars.begin(), numbers.scalars.end(), [](const ScalarSeries& series) {
        const auto settled = std::find(series.values.rbegin(), series.values.rend(), 0);
        return asks_for_overflow(series.frames) &&
               static_cast<size_t>(settled - series.values.rbegin()) >= kFewestNonfinite;
      });
}

bool has_loss_scaler(const Numbers& numbers) {
  return std::any_of(numbers.scalars.begin(), numbers.scalars.end(),
                     [](const ScalarSeries& series) { return asks_for_overflow(series.frames); });
}

}  // namespace traintrace
