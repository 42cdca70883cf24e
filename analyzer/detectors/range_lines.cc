#include "analyzer/detectors/range_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "analyzer/model/ending.h"
#include "analyzer/model/open_ranges.h"

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

struct Line {
  std::string ranges;
  bool ended;
  Ranks who;
};

using RangesOf = std::string(const Run& run, const RankState& state);

// Where it waited, if the wait ended with an abort, which it may have survived for a moment.
std::string ranges_while_waiting(const Run& run, const RankState& state) {
  std::string ranges = has_ended(state) ? ranges_at_abort_text(run, state) : "";
  return ranges.empty() ? open_ranges_text(run, state) : ranges;
}

// Ranks that are in the same share a line.
void add_lines(const Run& run, const Ranks& ranks, RangesOf* ranges_of,
               std::vector<std::string>& evidence) {
  std::vector<Line> lines;
  for (const Rank rank : ranks) {
    const RankState* const state = state_of(run, rank);
    const std::string ranges = state == nullptr ? "" : ranges_of(run, *state);
    if (ranges.empty()) {
      continue;
    }
    const bool ended = has_ended(*state);
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& each) {
      return each.ranges == ranges && each.ended == ended;
    });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), {ranges, ended, {}});
    }
    line->who.push_back(rank);
  }
  for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
    const auto& [ranges, ended, who] = lines[i];
    const bool one = who.size() == 1;
    evidence.push_back(fmt::format("{} {} in: {}", ranks_text(who),
                                   ended ? (one ? "was" : "were") : (one ? "is" : "are"), ranges));
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
      add_lines(run, suspects, open_ranges_text, finding.evidence);
      add_lines(run, others, ranges_while_waiting, finding.evidence);
      add_notes(run, suspects, finding.evidence);
    }
  }
}

}  // namespace traintrace
