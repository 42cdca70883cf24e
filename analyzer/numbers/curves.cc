#include "analyzer/numbers/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/model/communicators.h"

namespace traintrace {
namespace {

NumberCurve curve_of(const ScalarSeries& series) {
  NumberCurve curve{series.rank, series.process, series.times, {}};
  curve.values.reserve(series.values.size());
  for (const uint64_t bits : series.values) {
    curve.values.push_back(number_of(series.type.type, bits, series.bytes));
  }
  return curve;
}

// With the callers that tell it from others; they are left out where nothing else has its name.
struct NamedGroup {
  CurveGroup group;
  std::string callers;
};

void add_scalars(const Numbers& numbers, std::vector<NamedGroup>& groups) {
  const ScalarSeries* first = nullptr;
  for (const ScalarSeries& series : numbers.scalars) {
    if (series.type.type == ScalarType::kUnknown) {
      continue;
    }
    // A rank that had too few values for a type may be told apart by it.
    if (first == nullptr || !are_of_one_line(*first, series) ||
        first->type.type != series.type.type) {
      first = &series;
      groups.push_back({{CurveKind::kScalar,
                         series.place,
                         place_text(series) + ": " + std::string(name_of(series.type.type)),
                         series.type.type,
                         {}},
                        series.callers});
    }
    groups.back().group.curves.push_back(curve_of(series));
  }
}

double norm_or_nonfinite(const WholeTally& tally) {
  return tally.nans != 0         ? std::nan("")
         : tally.infinities != 0 ? std::numeric_limits<double>::infinity()
                                 : tally.norm();
}

size_t process_of(const Run& run, Rank rank) {
  const RankState* const state = state_of(run, rank);
  return state == nullptr ? 0 : state->process;
}

void add_check_curves(const Run& run, const Checks& checks, std::vector<NamedGroup>& groups) {
  struct OfRank {
    NumberCurve norms, nonfinite;
  };
  using Key = std::tuple<decltype(Site().key()), uint32_t, format::CheckedOperation, int16_t,
                         format::CheckedSide>;
  struct OfKey {
    const Check* first = nullptr;
    std::map<Rank, OfRank> ranks;
  };
  std::map<Key, OfKey> all;
  for (const auto& [rank, own] : checks.of_rank) {
    each_buffer(checks, own, [&](std::span<const Check> parts) {
      const Check& first = parts.front();
      OfKey& key = all[{checks.sites[first.site].key(), first.communicator, first.operation,
                        first.type, first.side}];
      key.first = key.first == nullptr ? &first : key.first;
      OfRank& curves = key.ranks[first.rank];
      const WholeTally tally = whole(parts);
      curves.norms.times.push_back(first.time);
      curves.norms.values.push_back(norm_or_nonfinite(tally));
      curves.nonfinite.values.push_back(static_cast<double>(tally.nonfinite()));
    });
  }
  for (auto& [key, one] : all) {
    const Check& check = *one.first;
    const Site& site = checks.sites[check.site];
    const std::string what =
        fmt::format("{} of {} on {}", check.side == format::kCheckedInput ? "input" : "output",
                    operation_name(check.operation),
                    short_label_of(run, run.communicators[check.communicator]));
    NamedGroup norms{{CurveKind::kNorm,
                      site.place,
                      fmt::format("{}: norm of the {}", place_text(site.place), what),
                      ScalarType::kFloat64,
                      {}},
                     site.callers};
    NamedGroup counts{{CurveKind::kNonfinite,
                       site.place,
                       fmt::format("{}: NaN and Inf in the {}", place_text(site.place), what),
                       ScalarType::kInteger,
                       {}},
                      site.callers};
    bool any = false;
    for (auto& [rank, curves] : one.ranks) {
      curves.norms.rank = curves.nonfinite.rank = rank;
      curves.norms.process = curves.nonfinite.process = process_of(run, rank);
      curves.nonfinite.times = curves.norms.times;
      any = any || std::any_of(curves.nonfinite.values.begin(), curves.nonfinite.values.end(),
                               [](double count) { return count != 0; });
      norms.group.curves.push_back(std::move(curves.norms));
      counts.group.curves.push_back(std::move(curves.nonfinite));
    }
    groups.push_back(std::move(norms));
    if (any) {
      groups.push_back(std::move(counts));
    }
  }
}

void set_apart(std::vector<NamedGroup>& groups) {
  std::map<std::string, size_t> count;
  for (const NamedGroup& one : groups) {
    ++count[one.group.name];
  }
  std::set<std::string> taken;
  for (NamedGroup& one : groups) {
    if (count[one.group.name] > 1 && !one.callers.empty()) {
      one.group.name += ", called from " + one.callers;
    }
    const std::string name = one.group.name;
    for (int number = 2; !taken.insert(one.group.name).second; ++number) {
      one.group.name = fmt::format("{} ({})", name, number);
    }
  }
}

}  // namespace

std::vector<CurveGroup> curves_of(const Run& run, const Numbers& numbers) {
  std::vector<NamedGroup> groups;
  add_scalars(numbers, groups);
  add_check_curves(run, numbers.checks, groups);
  set_apart(groups);
  std::vector<CurveGroup> result;
  result.reserve(groups.size());
  for (NamedGroup& one : groups) {
    result.push_back(std::move(one.group));
  }
  return result;
}

std::vector<size_t> thinned(std::span<const double> values, size_t most) {
  std::vector<size_t> kept;
  if (values.size() <= most) {
    kept.resize(values.size());
    std::generate(kept.begin(), kept.end(), [next = size_t{0}]() mutable { return next++; });
    return kept;
  }
  constexpr size_t kOfPart = 3;
  const size_t parts = (most - 2) / kOfPart;
  kept.push_back(0);
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * values.size() / parts;
    const size_t end = (part + 1) * values.size() / parts;
    std::optional<size_t> least, largest, nonfinite;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(values[i])) {
        nonfinite = nonfinite.value_or(i);
        continue;
      }
      least = !least || values[i] < values[*least] ? i : *least;
      largest = !largest || values[i] > values[*largest] ? i : *largest;
    }
    for (const std::optional<size_t>& one : {least, largest, nonfinite}) {
      if (one) {
        kept.push_back(*one);
      }
    }
  }
  kept.push_back(values.size() - 1);
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

}  // namespace traintrace
