#include "analyzer/model/runs/rank_assignment.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analyzer/model/process/launch_facts.h"

namespace traintrace {
namespace {

bool is_member(const CommunicatorText& communicator) {
  return (communicator.flags & format::kNoColor) == 0;
}

// The elements of a process, apart by the rank that they belong to: several only where one
// communicator occurs in it with different ranks.  Then the child of a communicator belongs to the
// rank of its parent; else a rank has a device of its own, or, where that does not tell them apart,
// the same place among the elements of each communicator.
std::vector<RankSeat> seats_of(const ProcessTrace& trace, size_t process) {
  std::map<uint64_t, std::vector<size_t>> by_id;
  size_t largest = 0;
  uint64_t reference = 0;
  for (size_t i = 0; i < trace.communicators.size(); ++i) {
    if (is_member(trace.communicators[i])) {
      auto& elements = by_id[trace.communicators[i].id];
      elements.push_back(i);
      if (elements.size() > largest) {
        largest = elements.size();
        reference = trace.communicators[i].id;
      }
    }
  }
  std::vector<RankSeat> seats(std::max<size_t>(largest, 1));
  std::map<int, size_t> by_device;
  for (size_t i = 0; i < seats.size(); ++i) {
    seats[i].process = process;
    if (seats.size() > 1) {
      seats[i].device = trace.communicators[by_id[reference][i]].device;
      by_device.emplace(seats[i].device, i);
    }
  }
  const bool devices_tell = by_device.size() == seats.size() && !by_device.contains(-1);
  std::vector<size_t> seat_of(trace.communicators.size(), 0);
  std::map<uint64_t, size_t> places;
  for (size_t i = 0; i < trace.communicators.size(); ++i) {
    const CommunicatorText& text = trace.communicators[i];
    const auto seat = by_device.find(text.device);
    if (text.parent_index != 0 && text.parent_index <= i) {
      seat_of[i] = seat_of[text.parent_index - 1];
    } else if (devices_tell && seat != by_device.end()) {
      seat_of[i] = seat->second;
    } else {
      seat_of[i] = places[text.id] % seats.size();
    }
    ++places[text.id];
    if (is_member(text)) {
      seats[seat_of[i]].communicators.push_back(i);
    }
  }
  return seats;
}

// Ranks by those variables, in the order of `seats`; empty if they do not name everybody apart.
std::vector<Rank> launched_ranks(std::span<const ProcessTrace> traces,
                                 const std::vector<RankSeat>& seats,
                                 const RankVariables& variables) {
  std::vector<Rank> ranks;
  std::set<int> taken;
  for (const RankSeat& seat : seats) {
    const auto rank = environment_number(traces[seat.process], variables.rank);
    if (!rank || seat.device >= 0 || !taken.insert(*rank).second) {
      return {};
    }
    ranks.push_back({*rank});
  }
  return ranks;
}

// Ranks in the largest communicator, the one that most take part in; who is not in it gets the
// numbers that are left.
std::vector<Rank> communicator_ranks(std::span<const ProcessTrace> traces,
                                     const std::vector<RankSeat>& seats) {
  struct Candidate {
    int size = -1;
    size_t members = 0;
  };
  std::map<uint64_t, Candidate> candidates;
  for (const RankSeat& seat : seats) {
    for (const size_t element : seat.communicators) {
      const CommunicatorText& communicator = traces[seat.process].communicators[element];
      Candidate& candidate = candidates[communicator.id];
      candidate.size = std::max(candidate.size, communicator.size);
      candidate.members += communicator.rank >= 0 ? 1 : 0;
    }
  }
  const auto largest =
      std::max_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.size, a.second.members) <
               std::pair(b.second.size, b.second.members);
      });
  std::vector<Rank> ranks(seats.size());
  std::set<int> taken;
  for (size_t i = 0; i < seats.size() && largest != candidates.end(); ++i) {
    for (const size_t element : seats[i].communicators) {
      const CommunicatorText& communicator = traces[seats[i].process].communicators[element];
      if (communicator.id == largest->first && communicator.rank >= 0 &&
          communicator.rank < kMostRanks && ranks[i].value < 0 &&
          taken.insert(communicator.rank).second) {
        ranks[i].value = communicator.rank;
      }
    }
  }
  int next = 0;
  for (Rank& rank : ranks) {
    while (rank.value < 0 && !taken.insert(next).second) {
      ++next;
    }
    rank.value = rank.value < 0 ? next : rank.value;
  }
  return ranks;
}

int world_size_of(std::span<const ProcessTrace> traces, const RankAssignment& assignment,
                  const char* variable) {
  int size = assignment.seats.empty() ? 0 : assignment.seats.back().rank.value + 1;
  std::map<uint64_t, std::set<int>> told;  // by communicator
  for (const RankSeat& seat : assignment.seats) {
    const ProcessTrace& trace = traces[seat.process];
    size =
        std::max(size, variable != nullptr ? environment_number(trace, variable).value_or(0) : 0);
    for (const size_t element : seat.communicators) {
      const CommunicatorText& communicator = trace.communicators[element];
      if (communicator.size > 0) {
        told[communicator.id].insert(communicator.size);
      }
    }
  }
  for (const auto& [id, sizes] : told) {
    // Where its members contradict each other, nobody knows it.
    const int own = sizes.size() == 1 ? *sizes.begin() : 0;
    size = own < kMostRanks ? std::max(size, own) : size;
  }
  return size;
}

}  // namespace

bool holds_several_ranks(const ProcessTrace& trace) {
  return seats_of(trace, 0).size() > 1;
}

RankAssignment assign_ranks(std::span<const ProcessTrace> traces) {
  RankAssignment assignment;
  std::vector<RankSeat>& seats = assignment.seats;
  for (size_t process = 0; process < traces.size(); ++process) {
    std::vector<RankSeat> own = seats_of(traces[process], process);
    std::move(own.begin(), own.end(), std::back_inserter(seats));
  }
  const char* size_variable = nullptr;
  std::vector<Rank> ranks;
  for (const RankVariables& variables : kRankVariables) {
    if (ranks.empty()) {
      ranks = launched_ranks(traces, seats, variables);
      size_variable = ranks.empty() ? nullptr : variables.world_size;
    }
  }
  if (ranks.empty()) {
    ranks = communicator_ranks(traces, seats);
  }
  for (size_t i = 0; i < seats.size(); ++i) {
    seats[i].rank = ranks[i];
  }
  std::sort(seats.begin(), seats.end(),
            [](const RankSeat& a, const RankSeat& b) { return a.rank < b.rank; });
  assignment.world_size = world_size_of(traces, assignment, size_variable);
  return assignment;
}

}  // namespace traintrace
