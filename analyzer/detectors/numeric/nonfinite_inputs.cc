// The rank whose data became NaN or infinite before any other had sent it such data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/finite_gradients.h"
#include "analyzer/detectors/numeric/nonfinite_history.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

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
  NonfiniteRun found = nonfinite_histories(numbers.checks, skips_at_last(numbers));
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
