// A number that the job fetches became a NaN or infinite, and stayed so.  Where it was made is not
// known from that: other ranks' values come through collectives.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/numeric/finite_gradients.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// From `first` on no value of the series is finite.
struct Tail {
  const ScalarSeries* series;
  size_t first;

  TimeNs time() const { return series->times[first]; }
  size_t length() const { return series->values.size() - first; }
};

size_t first_of_tail(const ScalarSeries& series) {
  size_t first = series.values.size();
  while (first > 0 && is_nonfinite(series.type.type, series.values[first - 1])) {
    --first;
  }
  return first;
}

// It had been NaN or infinite shortly before, and was finite again: a number that comes and goes,
// as a mean over nothing does, says nothing when it is gone.
bool comes_and_goes(const Tail& tail) {
  const size_t from = tail.first - std::min(tail.first, kHarmForgotten);
  const auto begin = tail.series->values.begin();
  return std::any_of(begin + static_cast<std::ptrdiff_t>(from),
                     begin + static_cast<std::ptrdiff_t>(tail.first),
                     [&](uint64_t value) { return is_nonfinite(tail.series->type.type, value); });
}

// By time; of at least `fewest` values each.
std::vector<Tail> tails_of(const Numbers& numbers, size_t fewest) {
  std::vector<Tail> tails;
  for (const ScalarSeries& series : numbers.scalars) {
    const Tail tail{&series, first_of_tail(series)};
    if (tail.length() >= fewest && tail.first >= series.type.proven_from &&
        series.values.size() > kFewestNonfinite && !comes_and_goes(tail)) {
      tails.push_back(tail);
    }
  }
  std::stable_sort(tails.begin(), tails.end(),
                   [](const Tail& a, const Tail& b) { return a.time() < b.time(); });
  return tails;
}

bool is_same_place(const ScalarSeries& a, const ScalarSeries& b) {
  return place_text(a) == place_text(b) && a.callers == b.callers && a.bytes == b.bytes;
}

// Whether the n-th value that is left of one rank is of the same step as that of another.
bool is_whole(const Run& run, const Tail& tail) {
  const std::vector<LossText>& losses = run.processes[tail.series->process].losses;
  return std::none_of(losses.begin(), losses.end(), [](const LossText& loss) {
    return loss.stat == "ring-overwritten" || loss.stat == "ring-shortened";
  });
}

// Of the place whose values went wrong first the rank that had the fewest before: its step was the
// first, whatever the clocks of other hosts say.  Where records are missing, by time alone.
void put_first_step_first(const Run& run, std::vector<Tail>& tails) {
  const auto of_place = [&, place = tails.front().series](const Tail& tail) {
    return is_same_place(*place, *tail.series);
  };
  const auto end = std::stable_partition(tails.begin(), tails.end(), of_place);
  if (std::all_of(tails.begin(), end, [&](const Tail& tail) { return is_whole(run, tail); })) {
    std::stable_sort(tails.begin(), end,
                     [](const Tail& a, const Tail& b) { return a.first < b.first; });
  }
}

bool is_at_once(const Tail& a, const Tail& b) {
  return is_same_place(*a.series, *b.series) && a.first == b.first;
}

std::string values_before(const Tail& tail) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = tail.first - std::min(tail.first, kShown); i < tail.first; ++i) {
    text += (text.empty() ? "" : ", ") + text_at(*tail.series, i);
  }
  return text;
}

std::string tail_line(const Run& run, const Tail& tail) {
  return fmt::format("rank {}: {} at {} is {} from its value {} on, since +{}; before: {}",
                     tail.series->rank.value, name_of(tail.series->type.type),
                     place_text(*tail.series), text_at(*tail.series, tail.first), tail.first + 1,
                     duration_text(elapsed(run.start, tail.time())), values_before(tail));
}

// What the job itself saw of it has the lines that are known best: those of a culprit, else of the
// first, come before all other evidence.
void add_tails(const Run& run, const std::vector<Tail>& tails, Finding& finding) {
  std::vector<std::string> first;
  std::vector<std::string> others;
  for (const Tail& tail : tails) {
    const bool leads = finding.culprits.empty() ? &tail == &tails.front()
                                                : contains(finding.culprits, tail.series->rank);
    (leads ? first : others).push_back(tail_line(run, tail));
  }
  finding.evidence.insert(finding.evidence.begin(), first.begin(), first.end());
  finding.evidence.insert(finding.evidence.end(), others.begin(), others.end());
  finding.evidence = cut(std::move(finding.evidence));
}

// A loss that is not finite has such gradients; a number beside finite ones is a metric.
void judge_by_gradients(const Checks& checks, const Tail& first, Finding& finding) {
  const size_t finite = FiniteGradients(checks).count_since(first.time());
  if (finite >= kFewestNonfinite) {
    finding.severity = Severity::kInfo;
    finding.certainty = Certainty::kPossible;
    finding.evidence.push_back(fmt::format(
        "what ranks gave to sums of gradients since, and got of them, is finite: {} in a row",
        finite));
    finding.advice =
        "the gradients are finite, so this is no number that they come from: a metric, such as a "
        "mean over nothing; see what it is";
  }
}

}  // namespace

std::vector<Finding> find_first_nonfinite(const Run& run, const Numbers& numbers) {
  const bool has_scaler = has_loss_scaler(numbers);
  std::vector<Tail> tails = tails_of(numbers, kFewestNonfinite);
  // Whoever stops at the first NaN fetches no second one.
  const bool at_the_end = tails.empty() && !has_scaler && ended_at_nonfinite(numbers);
  if (at_the_end) {
    tails = tails_of(numbers, 1);
  }
  if (!tails.empty()) {
    put_first_step_first(run, tails);
  }
  auto origin = first_nonfinite_input(run, numbers, has_scaler);
  if (!origin && !has_scaler) {
    origin = overflowed_sum(run, numbers.checks);
  }
  if (origin) {
    add_tails(run, tails, *origin);
    return {std::move(*origin)};
  }
  if (tails.empty()) {
    return {};
  }
  const Tail& first = tails.front();
  Ranks at_once;
  Finding finding = numeric_finding("numeric.first-nonfinite");
  for (const Tail& tail : tails) {
    if (is_at_once(first, tail)) {
      insert(at_once, tail.series->rank);
    }
    finding.evidence.push_back(tail_line(run, tail));
  }
  finding.severity = at_the_end ? Severity::kInfo : Severity::kWarning;
  finding.certainty = Certainty::kLikely;
  finding.sides = {at_once};
  finding.title = fmt::format(
      "a number that {} fetch{} at {} is {} since +{}: value {} of those recorded, after {} finite "
      "ones",
      ranks_text(at_once), at_once.size() == 1 ? "es" : "", place_text(*first.series),
      text_at(*first.series, first.first), duration_text(elapsed(run.start, first.time())),
      first.first + 1, first.first);
  if (first.series->place) {
    finding.where.push_back(*first.series->place);
  }
  finding.values = {{"since_ns", elapsed(run.start, first.time())},
                    {"finite_count", static_cast<int64_t>(first.first)},
                    {"nonfinite_count", static_cast<int64_t>(first.length())}};
  finding.evidence = cut(std::move(finding.evidence));
  finding.advice =
      "this is where it was seen first, not where it began: check the gradients of each rank "
      "before they are reduced, and the data of that step";
  judge_by_gradients(numbers.checks, first, finding);
  return {finding};
}

}  // namespace traintrace
