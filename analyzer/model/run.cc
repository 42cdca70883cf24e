#include "analyzer/model/run.h"

#include <algorithm>

namespace traintrace {

const RankState* state_of(const Run& run, Rank rank) {
  const auto found = std::lower_bound(run.ranks.begin(), run.ranks.end(), rank,
                                      [](const RankState& a, Rank b) { return a.rank < b; });
  return found != run.ranks.end() && found->rank == rank ? &*found : nullptr;
}

std::vector<const RankState*> states_of(const Run& run, size_t process) {
  std::vector<const RankState*> states;
  if (process < run.of_process.size()) {
    for (const size_t place : run.of_process[process]) {
      states.push_back(&run.ranks[place]);
    }
  }
  return states;
}

void index_ranks(Run& run) {
  run.of_process.assign(run.processes.size(), {});
  for (size_t place = 0; place < run.ranks.size(); ++place) {
    run.of_process[run.ranks[place].process].push_back(place);
  }
}

const Member* member_of(const Communicator& communicator, Rank rank) {
  const auto& members = communicator.members;
  const auto found = std::lower_bound(members.begin(), members.end(), rank,
                                      [](const Member& a, Rank b) { return a.rank < b; });
  return found != members.end() && found->rank == rank ? &*found : nullptr;
}

const Member* member_at(const Communicator& communicator, int local_rank) {
  for (const Member& member : communicator.members) {
    if (member.local_rank == local_rank) {
      return &member;
    }
  }
  return nullptr;
}

}  // namespace traintrace
