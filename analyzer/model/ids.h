// What ranks and communicators are called.  Types, so that neither is taken for the other or for an
// index.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace traintrace {

// A global rank of the job.
struct Rank {
  int value = -1;
  friend auto operator<=>(const Rank&, const Rank&) = default;  // NOLINT(modernize-use-nullptr)
};
using Ranks = std::vector<Rank>;  // ascending, each once

// Equal on all ranks (docs/format.md).
struct CommunicatorId {
  uint64_t value = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const CommunicatorId&, const CommunicatorId&) = default;
};

// "rank 2", "ranks 0,2", "ranks 0-3,7".
std::string ranks_text(const Ranks& ranks);
// The same without the word.
std::string rank_list(const Ranks& ranks);

bool contains(const Ranks& ranks, Rank rank);
void insert(Ranks& ranks, Rank rank);

}  // namespace traintrace
