#include "analyzer/reporters/verdict/people_lines.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <utility>

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

std::vector<std::string> fold_ranks(const std::vector<std::string>& lines) {
  struct Block {
    RankLine line;
    std::vector<std::string> below;  // frames and such, indented
  };
  std::vector<Block> blocks;
  for (const std::string& line : lines) {
    if (line.starts_with("    ") && !blocks.empty()) {
      blocks.back().below.push_back(line);
    } else {
      blocks.push_back({rank_line(line), {}});
    }
  }
  std::vector<Block> folded;
  std::map<std::pair<std::string, std::vector<std::string>>, size_t> places;
  for (Block& block : blocks) {
    if (block.line.ranks.empty()) {
      folded.push_back(std::move(block));
      continue;
    }
    const auto [place, is_new] =
        places.emplace(std::pair(block.line.rest, block.below), folded.size());
    if (is_new) {
      folded.push_back(std::move(block));
    } else {
      insert(folded[place->second].line.ranks, block.line.ranks.front());
    }
  }
  std::vector<std::string> out;
  for (const Block& block : folded) {
    out.push_back(text_of_line(block.line));
    out.insert(out.end(), block.below.begin(), block.below.end());
  }
  return out;
}

std::vector<std::string> lines_for_people(const Run& run, const std::vector<std::string>& lines) {
  std::vector<std::string> out = fold_ranks(lines);
  for (std::string& line : out) {
    line = with_wall_clock(for_people(line), run.start);
  }
  return out;
}

}  // namespace traintrace
