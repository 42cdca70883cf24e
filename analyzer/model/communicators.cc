#include "analyzer/model/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <map>
#include <tuple>

namespace traintrace {
namespace {

// A split is a collective of its parent: who has called the n-th one of it, with whatever color.
using SplitCalls = std::map<std::pair<uint64_t, uint32_t>, Ranks>;

SplitCalls split_calls(const Run& run, const std::vector<RankSeat>& seats) {
  SplitCalls calls;
  for (const RankSeat& seat : seats) {
    for (const CommunicatorText& text : run.processes[seat.process].communicators) {
      const bool own = seat.device < 0 || text.device < 0 || text.device == seat.device;
      if (text.origin == format::kSplit && own) {
        insert(calls[{text.parent, text.ordinal}], seat.rank);
      }
    }
  }
  return calls;
}

void find_members(Run& run, const std::vector<RankSeat>& seats) {
  std::map<uint64_t, Communicator> by_id;
  for (const RankSeat& seat : seats) {
    for (const size_t element : seat.communicators) {
      const CommunicatorText& text = run.processes[seat.process].communicators[element];
      Communicator& communicator = by_id[text.id];
      communicator.id = {text.id};
      if (text.parent != 0) {  // who joins a growing one knows none
        communicator.parent = {text.parent};
      }
      communicator.size = std::max(communicator.size, text.size);
      if (text.created != 0 && (communicator.created == 0 || text.created < communicator.created)) {
        communicator.created = text.created;
      }
      if (communicator.name.empty()) {
        communicator.name = text.name;
        communicator.named = !text.name.empty();
      }
      communicator.members.push_back({seat.rank, text.rank, seat.process, element});
    }
  }
  for (auto& [id, communicator] : by_id) {
    run.communicators.push_back(std::move(communicator));
  }
  std::sort(run.communicators.begin(), run.communicators.end(),
            [](const Communicator& a, const Communicator& b) {
              return std::tie(a.created, a.id) < std::tie(b.created, b.id);
            });
}

using ById = std::map<CommunicatorId, size_t>;  // in Run::communicators

const Communicator* parent_of(const Run& run, const ById& by_id, const Communicator& child) {
  const auto found = by_id.find(child.parent);
  return child.parent.value == 0 || found == by_id.end() ? nullptr
                                                         : &run.communicators[found->second];
}

format::CommunicatorOrigin origin_of(const Run& run, const Communicator& communicator) {
  return text_of(run, communicator.members.front()).origin;
}

Ranks all_known(const Communicator& communicator) {
  Ranks ranks = communicator.absent;
  for (const Member& member : communicator.members) {
    insert(ranks, member.rank);
  }
  return ranks;
}

bool is_done_anywhere(const Run& run, const Communicator& communicator) {
  return std::any_of(communicator.members.begin(), communicator.members.end(),
                     [&](const Member& member) { return text_of(run, member).ready != 0; });
}

// Once its members are known to be all: ranks in it are those of the parent, of a split sorted by
// key.
void number_members(const Run& run, Communicator& child, const Communicator& parent) {
  child.size = child.size < 0 ? static_cast<int>(child.members.size()) : child.size;
  std::vector<std::tuple<int, int, Member*>> order;
  for (Member& member : child.members) {
    const Member* in_parent = member_of(parent, member.rank);
    order.emplace_back(text_of(run, member).key, in_parent == nullptr ? -1 : in_parent->local_rank,
                       &member);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) {
    auto& [key, parent_rank, member] = order[i];
    member->local_rank =
        parent_rank < 0 || member->local_rank >= 0 ? member->local_rank : static_cast<int>(i);
  }
}

// Known once all of the parent called.
void number_split(const Run& run, Communicator& child, const Communicator& parent,
                  const SplitCalls& calls) {
  const auto callers =
      calls.find({child.parent.value, text_of(run, child.members.front()).ordinal});
  if (callers == calls.end()) {
    return;
  }
  const Ranks everybody = all_known(parent);
  std::set_difference(everybody.begin(), everybody.end(), callers->second.begin(),
                      callers->second.end(), std::back_inserter(child.absent));
  const bool knows_all = parent.size >= 0 && static_cast<int>(everybody.size()) >= parent.size;
  if (!child.absent.empty() || !knows_all) {
    // A split that is done anywhere was called everywhere: then they are not missing from it, but
    // whether they are members cannot be said.
    if (is_done_anywhere(run, child)) {
      child.absent.clear();
    }
    return;
  }
  number_members(run, child, parent);
}

// Whom a shrink excludes does not call it.  Once it is done anywhere, all others of the parent
// have.
void number_shrink(const Run& run, Communicator& child, const Communicator& parent) {
  const bool all_recorded =
      parent.size >= 0 && static_cast<int>(parent.members.size()) >= parent.size;
  if (all_recorded && is_done_anywhere(run, child)) {
    number_members(run, child, parent);
  }
}

// What the source says of its members, of whom some recorded nothing about it.
bool find_declared(const Run& run, Communicator& communicator) {
  for (const int rank : declared_members(text_of(run, communicator.members.front()))) {
    if (member_of(communicator, {rank}) == nullptr) {
      insert(communicator.absent, {rank});
    }
  }
  return !text_of(run, communicator.members.front()).members.empty();
}

void find_absent(Run& run, Communicator& communicator) {
  if (find_declared(run, communicator)) {
    return;
  }
  if (communicator.size != run.world_size ||
      static_cast<int>(communicator.members.size()) >= run.world_size) {
    return;
  }
  Ranks known = run.missing;
  for (const RankState& state : run.ranks) {
    insert(known, state.rank);
  }
  for (const Rank rank : known) {
    if (member_of(communicator, rank) == nullptr) {
      communicator.absent.push_back(rank);
    }
  }
}

// All of the parent call it; who joins them is said by size only.
void find_absent_from_growth(Run& run, Communicator& child, const Communicator& parent) {
  find_absent(run, child);
  if (is_done_anywhere(run, child)) {
    return;
  }
  for (const Rank rank : all_known(parent)) {
    if (member_of(child, rank) == nullptr) {
      insert(child.absent, rank);
    }
  }
}

void name_by_members(const Run& run, Communicator& communicator, const Communicator* parent) {
  const Ranks ranks = all_known(communicator);
  const bool complete =
      communicator.size < 0 || static_cast<int>(ranks.size()) >= communicator.size;
  const CommunicatorText& text = text_of(run, communicator.members.front());
  const std::string of = (complete ? "" : "of which ") + rank_list(ranks);
  if (parent != nullptr && text.origin == format::kSplit) {
    // Its size is not recorded: a rank without a trace may be in it.
    const bool all_recorded =
        communicator.size >= 0 || !text.members.empty() || run.missing.empty();
    communicator.name = fmt::format("split of {} by {}: {}ranks {}", parent->name, text.color,
                                    all_recorded ? "" : "known ", of);
  } else {
    const int size = communicator.size < 0 ? static_cast<int>(ranks.size()) : communicator.size;
    communicator.name = fmt::format("{} rank{} {}", size, size == 1 ? "" : "s", of);
  }
}

// Parents before children; a damaged trace may say that they go in a cycle.
std::vector<size_t> by_descent(const Run& run, const ById& by_id) {
  constexpr int kDeepest = 64;
  std::vector<std::pair<int, size_t>> depths;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    int depth = 0;
    const Communicator* at = &run.communicators[i];
    while (depth < kDeepest && (at = parent_of(run, by_id, *at)) != nullptr) {
      ++depth;
    }
    depths.emplace_back(depth, i);
  }
  std::sort(depths.begin(), depths.end());
  std::vector<size_t> order;
  order.reserve(depths.size());
  for (const auto& [depth, i] : depths) {
    order.push_back(i);
  }
  return order;
}

void name_unnamed(Run& run, const ById& by_id, const std::vector<size_t>& order) {
  std::map<std::string, int> uses;
  for (const size_t i : order) {
    Communicator& communicator = run.communicators[i];
    if (communicator.named) {
      continue;
    }
    name_by_members(run, communicator, parent_of(run, by_id, communicator));
    const int use = ++uses[communicator.name];
    communicator.name += use == 1 ? "" : fmt::format(", number {}", use);
  }
}

}  // namespace

void merge_communicators(Run& run, const std::vector<RankSeat>& seats) {
  find_members(run, seats);
  ById by_id;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    by_id.emplace(run.communicators[i].id, i);
  }
  const SplitCalls calls = split_calls(run, seats);
  const std::vector<size_t> order = by_descent(run, by_id);
  for (const size_t i : order) {
    Communicator& communicator = run.communicators[i];
    const Communicator* parent = parent_of(run, by_id, communicator);
    if (parent == nullptr) {
      find_absent(run, communicator);
    } else if (origin_of(run, communicator) == format::kSplit) {
      number_split(run, communicator, *parent, calls);
    } else if (origin_of(run, communicator) == format::kShrink) {
      number_shrink(run, communicator, *parent);
    } else if (origin_of(run, communicator) == format::kGrow) {
      find_absent_from_growth(run, communicator, *parent);
    }
  }
  name_unnamed(run, by_id, order);
}

std::vector<int> declared_members(const CommunicatorText& text) {
  std::vector<int> ranks;
  const char* at = text.members.data();
  const char* const end = at + text.members.size();
  for (int rank = 0; at < end;) {
    const auto [behind, problem] = std::from_chars(at, end, rank);
    if (problem != std::errc() || rank < 0) {
      return {};
    }
    ranks.push_back(rank);
    at = behind + 1;
  }
  return ranks;
}

std::string label_of(const Run& run, const Communicator& communicator) {
  if (!communicator.named) {
    const std::string& name = communicator.name;
    const bool counted = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0;
    return (counted ? "of " : "") + name;
  }
  const auto same = std::count_if(
      run.communicators.begin(), run.communicators.end(),
      [&](const Communicator& other) { return other.named && other.name == communicator.name; });
  const Ranks ranks = all_known(communicator);
  if (same > 1) {
    return fmt::format("{} ({})", communicator.name, ranks_text(ranks));
  }
  const int size = communicator.size < 0 ? static_cast<int>(ranks.size()) : communicator.size;
  return fmt::format("{} ({} rank{})", communicator.name, size, size == 1 ? "" : "s");
}

std::string short_label_of(const Run& run, const Communicator& communicator) {
  return communicator.named ? communicator.name : "communicator " + label_of(run, communicator);
}

}  // namespace traintrace
