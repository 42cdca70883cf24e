#include "analyzer/reporters/people_lines.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/text/units.h"
#include "analyzer/text/wall_clock.h"

namespace traintrace {
namespace {

struct RankLine {
  Ranks ranks;
  std::string rest;  // behind "rank 8"; the whole line where it is about no rank alone
};

RankLine rank_line(const std::string& line) {
  constexpr std::string_view kBegin = "rank ";
  Rank rank;
  const char* const begin = line.data() + kBegin.size();
  const char* const end = line.data() + line.size();
  if (!line.starts_with(kBegin)) {
    return {{}, line};
  }
  const auto [rest, error] = std::from_chars(begin, end, rank.value);
  // "rank 8, process 1008 on b": what follows is this one's own.
  return error != std::errc() || rest == end || (*rest != ' ' && *rest != ':')
             ? RankLine{{}, line}
             : RankLine{{rank}, std::string(rest, end)};
}

std::string text_of_line(const RankLine& line) {
  constexpr size_t kPair = 2;
  return line.ranks.empty()       ? line.rest
         : line.ranks.size() == 1 ? fmt::format("rank {}{}", line.ranks.front().value, line.rest)
         : line.ranks.size() == kPair
             ? fmt::format("each of {}{}", ranks_text(line.ranks), line.rest)
             : fmt::format("each of {} ({}){}", ranks_text(line.ranks), line.ranks.size(),
                           line.rest);
}

}  // namespace

std::vector<std::string> lines_for_people(const Run& run, const std::vector<std::string>& lines) {
  std::vector<RankLine> folded;
  std::map<std::string, size_t> places;
  for (const std::string& line : lines) {
    RankLine own = rank_line(line);
    const auto known = own.ranks.empty() ? places.end() : places.find(own.rest);
    if (known != places.end()) {
      insert(folded[known->second].ranks, own.ranks.front());
      continue;
    }
    if (!own.ranks.empty()) {
      places.emplace(own.rest, folded.size());
    }
    folded.push_back(std::move(own));
  }
  std::vector<std::string> out;
  out.reserve(folded.size());
  for (const RankLine& line : folded) {
    out.push_back(with_wall_clock(for_people(text_of_line(line)), run.start));
  }
  return out;
}

}  // namespace traintrace
