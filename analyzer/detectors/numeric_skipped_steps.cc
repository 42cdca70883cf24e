// Steps that a loss scaler skipped, because a gradient was not finite: now and then as it should
// be, again and again if the scale finds no value that works.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/detectors/numeric.h"
#include "analyzer/detectors/trace_finding.h"
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
  size_t late = 0;         // after the scale has settled
  size_t longest_row = 0;  // of those
  size_t first_of_row = 0;

  size_t steps() const { return series->values.size(); }
  size_t late_steps() const { return steps() - std::min(steps(), kScaleSettles); }
  bool collapsed() const {
    const bool often = late >= kSkipsInARow && late * 100 > kSkipShare * late_steps();
    return longest_row >= kSkipsInARow || often;
  }
};

Skips skips_of(const ScalarSeries& series) {
  Skips skips{&series};
  size_t row = 0;
  for (size_t i = 0; i < series.values.size(); ++i) {
    const bool skipped = series.values[i] != 0;
    skips.all += skipped ? 1 : 0;
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

SetFlags set_flags(const Checks& checks) {
  constexpr uint64_t kMostFlags = 4;  // one per device of the process
  SetFlags flags;
  for (const CheckedOperation& operation : checks.operations) {
    const Check& first = checks.all[operation.first];
    if (first.operation != format::kCheckedAllReduce || first.count > kMostFlags ||
        !operation.agrees || !asks_for_overflow(checks.sites[first.site].frames)) {
      continue;
    }
    bool any = false;
    for (const Check& check : side_of(checks_of(checks, operation), format::kCheckedInput)) {
      const bool set = holds_nonfinite(check) || check.tally.largest != 0;
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
                    {"in_a_row_count", static_cast<int64_t>(worst.longest_row)}};
  return finding;
}

Finding collapse(const Run& run, const std::vector<Skips>& all, const Skips& worst) {
  Finding finding = skips_finding("numeric.scale-collapsed", all, worst);
  const std::string since =
      worst.longest_row >= kSkipsInARow
          ? fmt::format(", {} of them in a row from +{} on", worst.longest_row,
                        duration_text(elapsed(run.start, worst.series->times[worst.first_of_row])))
          : "";
  finding.certainty = Certainty::kLikely;
  finding.title = fmt::format(
      "{} skip optimizer steps again and again, as gradients are not finite: {} of {} steps after "
      "the first {}{}",
      ranks_text(finding.sides.front()), worst.late, worst.late_steps(), kScaleSettles, since);
  finding.advice =
      "find the gradient that is not finite at any scale: check the data and the loss of that "
      "step on each rank; a lower learning rate or bfloat16 instead of half precision";
  return finding;
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
        return std::pair(a.collapsed(), a.late) < std::pair(b.collapsed(), b.late);
      });
  if (worst.collapsed()) {
    return with_flags(collapse(run, all, worst));
  }
  Finding finding = skips_finding("numeric.overflow-skipped", all, worst);
  finding.title = fmt::format(
      "a loss scaler skipped {} of {} optimizer steps of {}, as it does when it tries a higher "
      "scale",
      worst.all, worst.steps(), ranks_text(finding.sides.front()));
  finding.advice = "nothing to do";
  return with_flags(std::move(finding));
}

bool has_loss_scaler(const Numbers& numbers) {
  return std::any_of(numbers.scalars.begin(), numbers.scalars.end(),
                     [](const ScalarSeries& series) { return asks_for_overflow(series.frames); });
}

}  // namespace traintrace
