// Which rank a profile is of, where it does not say so itself.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// "step_3.rank-2.pt.trace.json": 2.  None: no rank stands there, or several, or one within a node
// or a part of the model ("local_rank2", "tp_rank_0").
std::optional<int> rank_of_name(std::string_view path);

// "[0, 1, 3]" as PyTorch writes the ranks of a process group; empty: not all are written.
std::set<int> group_members(std::string_view text);

// Those of all groups whose collectives it ran, without those that it sent to or received from.
// None: no group is known with its members.
std::optional<std::set<int>> possible_ranks(const Timeline& timeline);

// The groups whose collectives it ran, by name, members and size.
std::set<std::string> group_names(const Timeline& timeline);

// Whether it moves data between ranks: then it is one of several.
bool moves_between_ranks(const Timeline& timeline);

// Sets the rank from the name of the file and the size of the world from the groups, where nothing
// else said them.
void take_rank_of_name(Timeline& timeline);

}  // namespace traintrace
