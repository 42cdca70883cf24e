// A rank that ended by itself as soon as it had seen that its numbers are not finite any more: the
// numbers are the cause, and its end their consequence.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/job_end.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr std::string_view kEndCodes[] = {"run.rank-failed", "collective.dead-rank",
                                          "collective.early-exit"};

// As an exception, an assertion and sys.exit() do.  A crash or a kill is for other reasons.
bool ended_by_itself(const Run& run, const RankState& state) {
  const std::vector<RankEnd> failures = failures_of(run);
  const auto failure = std::find_if(failures.begin(), failures.end(), [&](const RankEnd& end) {
    return end.state->rank == state.rank;
  });
  if (failure == failures.end()) {
    return exited_normally(run, state);
  }
  return failure->by() == EndedBy::kItself && may_have_given_up(run, state);
}

// It sent no batch and called no collective any more: it did not begin another step.
bool ended_after(const Numbers& numbers, Rank rank, TimeNs time) {
  const auto is_later = [&](const std::vector<TimeNs>& times) {
    return !times.empty() && *std::max_element(times.begin(), times.end()) > time;
  };
  const auto collectives = numbers.collectives.find(rank);
  return (collectives == numbers.collectives.end() || !is_later(collectives->second)) &&
         std::none_of(numbers.batches.begin(), numbers.batches.end(),
                      [&](const BatchSeries& series) {
                        return series.rank == rank && is_later(series.times);
                      });
}

// What the rank fetched last from one line is not finite.  Of a job that goes on with such numbers
// for longer nobody knows that it ended for them.
const ScalarSeries* last_fetched(const Numbers& numbers, Rank rank) {
  const auto found =
      std::find_if(numbers.scalars.begin(), numbers.scalars.end(), [&](const ScalarSeries& series) {
        if (series.rank != rank || !ended_after(numbers, rank, series.times.back())) {
          return false;
        }
        const auto is_bad = [&](uint64_t value) { return is_nonfinite(series.type.type, value); };
        const auto tail = std::find_if_not(series.values.rbegin(), series.values.rend(), is_bad);
        const auto length = static_cast<size_t>(tail - series.values.rbegin());
        return length != 0 && length <= kHarmForgotten &&
               series.values.size() - length >= series.type.proven_from;
      });
  return found == numbers.scalars.end() ? nullptr : &*found;
}

// What it gave to a sum last, or got of one, is not finite; then it fetched something, as `if
// torch.isfinite(loss)` does.
const ScalarSeries* last_asked(const Numbers& numbers, Rank rank) {
  const auto own = numbers.checks.of_rank.find(rank);
  if (own == numbers.checks.of_rank.end()) {
    return nullptr;
  }
  size_t sums = 0;  // not finite, in a row up to the last
  TimeNs last = 0;
  for (auto number = own->second.rbegin(); number != own->second.rend(); ++number) {
    const Check& check = numbers.checks.all[*number];
    if (!is_sum(check) || !is_real(check.type) || check.count * check.parts <= kFewestElements) {
      continue;
    }
    if (!holds_nonfinite(check)) {
      break;
    }
    last = std::max(last, check.time);
    ++sums;
  }
  if (sums == 0 || sums > kHarmForgotten) {
    return nullptr;
  }
  const auto found =
      std::find_if(numbers.scalars.begin(), numbers.scalars.end(), [&](const ScalarSeries& series) {
        return series.rank == rank && series.times.back() > last &&
               ended_after(numbers, rank, series.times.back());
      });
  return found == numbers.scalars.end() ? nullptr : &*found;
}

// Why the rank ended, in words; empty: that is not known, or it ended before `cause`.
std::string reason_of(const Run& run, const Numbers& numbers, const Finding& cause, Rank rank) {
  const RankState* state = state_of(run, rank);
  if (state == nullptr || !ended_by_itself(run, *state) ||
      elapsed(run.start, state->life.ended) < since_ns(cause)) {
    return "";
  }
  if (const ScalarSeries* fetched = last_fetched(numbers, rank)) {
    return fmt::format("rank {} fetched {} at {} and ended without another step", rank.value,
                       text_at(*fetched, fetched->values.size() - 1), place_text(*fetched));
  }
  if (const ScalarSeries* asked = last_asked(numbers, rank)) {
    return fmt::format(
        "rank {} fetched a number at {} when its gradients were not finite any more, and ended "
        "without another step",
        rank.value, place_text(*asked));
  }
  return "";
}

// Those of whom a finding says that they ended.
Ranks ended_ranks(const Finding& finding) {
  return !finding.culprits.empty() || finding.sides.empty() ? finding.culprits
                                                            : finding.sides.front();
}

}  // namespace

void put_nonfinite_before_ends(const Run& run, const Numbers& numbers,
                               std::vector<Finding>& findings) {
  const auto cause = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.code == "numeric.first-nonfinite";
  });
  if (cause == findings.end()) {
    return;
  }
  for (Finding& finding : findings) {
    if (std::find(std::begin(kEndCodes), std::end(kEndCodes), finding.code) ==
        std::end(kEndCodes)) {
      continue;
    }
    std::vector<std::string> reasons;
    const Ranks ended = ended_ranks(finding);
    for (const Rank rank : ended) {
      reasons.push_back(reason_of(run, numbers, *cause, rank));
    }
    if (reasons.empty() || std::find(reasons.begin(), reasons.end(), "") != reasons.end()) {
      continue;
    }
    finding.root = false;
    finding.evidence.push_back("consequence of numeric.first-nonfinite: " + reasons.front());
    cause->root = true;
    cause->severity = std::min(cause->severity, Severity::kWarning);
    cause->evidence.push_back("consequence: " + finding.title);
  }
}

}  // namespace traintrace
