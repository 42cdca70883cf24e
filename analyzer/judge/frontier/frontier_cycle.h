// Who of a cycle is the cause, and where: questions about the waits of its ranks.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/judge/frontier/standing.h"
#include "analyzer/model/run.h"

namespace traintrace {

// The one that is missing where most have come, if that is one alone.
std::optional<Rank> missing_in(const std::vector<Wait>& waits, const Ranks& cycle);

// Of two collectives that wait for each other, the one rank that issued them in the other order.
std::optional<Rank> only_one_in_other_order(const Run& run, const Standings& standings,
                                            const std::vector<Wait>& waits, const Ranks& cycle);

// The first message between them whose other side was not issued.
std::optional<size_t> unanswered_in(const std::vector<Wait>& waits, const Ranks& cycle);

// The rank stands in messages without numbers, issued as one, to several of them who have none
// left for it: each but one may be through with its side, so that it may wait for that one alone.
bool may_be_answered(const std::vector<Wait>& waits, const Ranks& cycle, Rank rank);

}  // namespace traintrace
