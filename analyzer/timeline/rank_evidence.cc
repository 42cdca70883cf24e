#include "analyzer/timeline/rank_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_set>

namespace traintrace {
namespace {

constexpr int kMostRanksOfAJob = 1 << 20;

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Of a node, or of one way of being parallel: that rank is none of the job.
bool is_part_of_a_job(std::string_view word) {
  constexpr std::string_view kParts[] = {"local", "node", "host",   "group",    "tp",    "pp",
                                         "dp",    "ep",   "cp",     "sp",       "mp",    "etp",
                                         "edp",   "vpp",  "fsdp",   "intra",    "inter", "gpu",
                                         "model", "data", "tensor", "pipeline", "expert"};
  return std::find(std::begin(kParts), std::end(kParts), word) != std::end(kParts);
}

// The letters that end at `end`, behind one separator at most.
std::string_view word_before(std::string_view text, size_t end) {
  if (end > 0 && (text[end - 1] == '_' || text[end - 1] == '-' || text[end - 1] == '.')) {
    --end;
  }
  size_t begin = end;
  while (begin > 0 && is_letter(text[begin - 1])) {
    --begin;
  }
  return text.substr(begin, end - begin);
}

std::optional<int> number_at(std::string_view text, size_t begin) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  const bool is_whole = begin < text.size() && is_digit(text[begin]) && error == std::errc() &&
                        number <= kMostRanksOfAJob;
  return is_whole ? std::optional(number) : std::nullopt;
}

// The notes that name a group each once: there are far more collectives than groups.
template <class Visit>
void visit_groups(const Timeline& timeline, const Visit& visit) {
  std::set<std::tuple<uint32_t, uint32_t, int32_t>> seen;
  for (const CollectiveNote& note : timeline.collectives) {
    if (note.group != kNoName && seen.emplace(note.group, note.members, note.group_size).second) {
      visit(note);
    }
  }
}

std::set<int> noted_members(const Timeline& timeline, const CollectiveNote& note) {
  return note.members == kNoName ? std::set<int>() : group_members(timeline.names[note.members]);
}

}  // namespace

std::optional<int> rank_of_name(std::string_view path) {
  constexpr std::string_view kWord = "rank";
  std::string name(path.substr(path.rfind('/') + 1));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::optional<int> found;
  for (size_t at = name.find(kWord); at != name.npos; at = name.find(kWord, at + 1)) {
    if (at > 0 && is_letter(name[at - 1])) {
      continue;  // "localrank2"
    }
    size_t begin = at + kWord.size();
    if (begin < name.size() &&
        std::string_view("_-=.").find(name[begin]) != std::string_view::npos) {
      ++begin;
    }
    const std::optional<int> number = number_at(name, begin);
    if (!number || is_part_of_a_job(word_before(name, at))) {
      continue;
    }
    if (found && found != number) {
      return std::nullopt;
    }
    found = number;
  }
  return found;
}

std::set<int> group_members(std::string_view text) {
  std::set<int> members;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '.') {
      return {};  // "...": cut off
    }
    const std::optional<int> number = number_at(text, at);
    if (number) {
      members.insert(*number);
    }
    while (at < text.size() && is_digit(text[at])) {
      ++at;
    }
    at += at < text.size() ? 1 : 0;
    while (at < text.size() && !is_digit(text[at]) && text[at] != '.') {
      ++at;
    }
  }
  return members;
}

std::optional<std::set<int>> possible_ranks(const Timeline& timeline) {
  std::optional<std::set<int>> possible;
  visit_groups(timeline, [&](const CollectiveNote& note) {
    const std::set<int> members = noted_members(timeline, note);
    if (members.empty()) {
      return;
    }
    if (!possible) {
      possible = members;
    } else {
      std::erase_if(*possible, [&](int rank) { return !members.contains(rank); });
    }
  });
  for (const CollectiveNote& note : timeline.collectives) {
    if (possible && note.peer >= 0) {
      possible->erase(note.peer);
    }
  }
  return possible && possible->empty() ? std::nullopt : possible;
}

std::set<std::string> group_names(const Timeline& timeline) {
  std::set<std::string> names;
  visit_groups(timeline, [&](const CollectiveNote& note) {
    names.insert(fmt::format("{} {} {}", timeline.names[note.group],
                             note.members == kNoName ? "" : timeline.names[note.members],
                             note.group_size));
  });
  return names;
}

bool moves_between_ranks(const Timeline& timeline) {
  return std::any_of(timeline.work.begin(), timeline.work.end(),
                     [](const GpuWork& work) { return work.kind == WorkKind::kCommunication; });
}

void take_rank_of_name(Timeline& timeline) {
  if (!timeline.world_size) {
    visit_groups(timeline, [&](const CollectiveNote& note) {
      const std::set<int> members = noted_members(timeline, note);
      const int last = members.empty() ? -1 : *members.rbegin();
      const int size = std::max(note.group_size, last + 1);
      if (size > 0 && size <= kMostRanksOfAJob) {
        timeline.world_size = std::max(timeline.world_size.value_or(0), size);
      }
    });
  }
  if (timeline.rank) {
    timeline.rank_from = RankSource::kTold;
    return;
  }
  const std::optional<int> named = rank_of_name(timeline.source);
  const std::optional<std::set<int>> possible = possible_ranks(timeline);
  const bool is_one = named && (possible ? possible->contains(*named)
                                         : !timeline.world_size || *named < *timeline.world_size);
  if (is_one) {
    timeline.rank = named;
    timeline.rank_from = RankSource::kFileName;
  }
}

}  // namespace traintrace
