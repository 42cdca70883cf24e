#include "analyzer/detectors/range_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/open_ranges.h"

namespace traintrace {
namespace {

constexpr size_t kMostLines = 4;  // for culprits, and for victims

// Of memory and latency it matters where they were then, not where they are.
bool is_about_where_they_are(const Finding& finding) {
  constexpr std::string_view kAreas[] = {"collective.", "comm.", "p2p.",
                                         "device.",     "host.", "run."};
  return finding.severity == Severity::kError &&
         std::any_of(std::begin(kAreas), std::end(kAreas),
                     [&](std::string_view area) { return finding.code.starts_with(area); });
}

enum class Tense : uint8_t { kIs, kWas, kWasLast };

struct Place {
  std::string ranges;  // empty: not known
  Tense tense;
};

struct Line {
  Place place;
  Ranks who;
};

using PlaceOf = Place(const Run& run, const RankState& state);

Place place_now(const Run& run, const RankState& state) {
  return {open_ranges_text(run, state), has_ended(state) ? Tense::kWas : Tense::kIs};
}

// Where it waited, if the wait ended with an abort, which it may have survived for a moment.
Place place_of_wait(const Run& run, const RankState& state) {
  std::string ranges = has_ended(state) ? ranges_at_abort_text(run, state) : "";
  return ranges.empty() ? place_now(run, state) : Place{std::move(ranges), Tense::kWas};
}

// Of one that has ended, and left all ranges before that.
Place place_of_suspect(const Run& run, const RankState& state) {
  Place place = place_now(run, state);
  return place.ranges.empty() && has_ended(state)
             ? Place{last_ranges_text(run, state), Tense::kWasLast}
             : place;
}

const char* verb(Tense tense, size_t ranks) {
  switch (tense) {
    case Tense::kIs:
      return ranks == 1 ? "is" : "are";
    case Tense::kWas:
      return ranks == 1 ? "was" : "were";
    case Tense::kWasLast:
      return ranks == 1 ? "was last" : "were last";
  }
  return "";
}

// Ranks that are in the same share a line.
void add_lines(const Run& run, const Ranks& ranks, PlaceOf* place_of,
               std::vector<std::string>& evidence) {
  std::vector<Line> lines;
  for (const Rank rank : ranks) {
    const RankState* const state = state_of(run, rank);
    Place place = state == nullptr ? Place{} : place_of(run, *state);
    if (place.ranges.empty()) {
      continue;
    }
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& each) {
      return each.place.ranges == place.ranges && each.place.tense == place.tense;
    });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), {std::move(place), {}});
    }
    line->who.push_back(rank);
  }
  for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
    const auto& [place, who] = lines[i];
    evidence.push_back(
        fmt::format("{} {} in: {}", ranks_text(who), verb(place.tense, who.size()), place.ranges));
  }
  if (lines.size() > kMostLines) {
    evidence.push_back(fmt::format("and {} more are in other ranges", lines.size() - kMostLines));
  }
}

void add_notes(const Run& run, const Ranks& culprits, std::vector<std::string>& evidence) {
  size_t lines = 0;
  for (const Rank rank : culprits) {
    const RankState* const state = state_of(run, rank);
    const std::string notes = state == nullptr ? "" : notes_text(run, *state);
    if (!notes.empty() && ++lines <= kMostLines) {
      evidence.push_back(fmt::format("rank {} noted: {}", rank.value, notes));
    }
  }
}

// Where there are no culprits, those of a side of their own that do not wait.
Ranks suspects_of(const Finding& finding) {
  Ranks suspects = finding.culprits;
  for (size_t i = 0; finding.culprits.empty() && i < finding.sides.size(); ++i) {
    for (const Rank rank : finding.sides[i]) {
      if (!contains(finding.victims, rank)) {
        insert(suspects, rank);
      }
    }
  }
  return suspects;
}

}  // namespace

void add_open_ranges(const Run& run, std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    if (is_about_where_they_are(finding)) {
      const Ranks suspects = suspects_of(finding);
      Ranks others;
      std::set_difference(finding.victims.begin(), finding.victims.end(), suspects.begin(),
                          suspects.end(), std::back_inserter(others));
      add_lines(run, suspects, place_of_suspect, finding.evidence);
      add_lines(run, others, place_of_wait, finding.evidence);
      add_notes(run, suspects, finding.evidence);
    }
  }
}

}  // namespace traintrace
