#include "analyzer/match/departures.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace traintrace {
namespace {

// Ranks must have done so much alike before what parts them counts for anything.
constexpr size_t kLeastInCommon = 4;
constexpr size_t kPartnersAside = 2;  // on either side, in each communicator
constexpr size_t kLongestContext = 4096;

struct Parting {
  size_t own_at = 0;
  size_t their_at = 0;
};

class Departures {
 public:
  Departures(const Run& run, const std::vector<Program>& programs)
      : run_(run), programs_(programs), leader_(programs.size()) {
    std::iota(leader_.begin(), leader_.end(), size_t{0});
  }

  std::vector<Departure> find() {
    compare_all();
    std::vector<Departure> found;
    std::set<size_t> told;
    for (const auto& [pair, parting] : partings_) {
      const auto& [a, b] = pair;
      if (find(a) == find(b)) {
        continue;  // what others show to be the same
      }
      const size_t own_size = size_of(a);
      const size_t their_size = size_of(b);
      if (own_size != their_size) {
        const bool first = own_size < their_size;
        add(first ? a : b, first ? b : a,
            first ? parting : Parting{parting.their_at, parting.own_at}, false, told, found);
      } else if (const int changed = changed_habit(a, b, parting); changed != 0) {
        const bool first = changed < 0;
        add(first ? a : b, first ? b : a,
            first ? parting : Parting{parting.their_at, parting.own_at}, true, told, found);
      }
    }
    return found;
  }

 private:
  size_t find(size_t i) {
    while (leader_[i] != i) {
      i = leader_[i] = leader_[leader_[i]];
    }
    return i;
  }

  size_t size_of(size_t i) {
    const size_t leader = find(i);
    size_t size = 0;
    for (size_t other = 0; other < leader_.size(); ++other) {
      size += find(other) == leader ? 1 : 0;
    }
    return size;
  }

  std::optional<size_t> index_of(Rank rank) const {
    const Program* const program = program_of(programs_, rank);
    return program == nullptr ? std::nullopt
                              : std::optional(static_cast<size_t>(program - programs_.data()));
  }

  // Those of one role that have a communicator in common, each with the next few of them.
  void compare_all() {
    std::set<std::pair<size_t, size_t>> seen;
    for (const Communicator& communicator : run_.communicators) {
      std::map<uint64_t, std::vector<size_t>> by_role;
      for (const Member& member : communicator.members) {
        const auto index = index_of(member.rank);
        if (index && programs_[*index].whole) {
          by_role[programs_[*index].role].push_back(*index);
        }
      }
      for (const auto& [role, members] : by_role) {
        for (size_t i = 0; i < members.size(); ++i) {
          for (size_t next = i + 1; next <= i + kPartnersAside; ++next) {
            const size_t a = std::min(members[i], members[next % members.size()]);
            const size_t b = std::max(members[i], members[next % members.size()]);
            if (a != b && seen.emplace(a, b).second) {
              compare(a, b);
            }
          }
        }
      }
    }
  }

  // The oldest collective that both are known to have called together.
  std::optional<Parting> anchor_of(const Program& own, const Program& theirs) const {
    std::optional<Parting> best;
    for (const auto& [communicator, positions] : own.collectives) {
      const auto other = theirs.collectives.find(communicator);
      if (other == theirs.collectives.end()) {
        continue;
      }
      const auto sequence_at = [](const Program& program, uint32_t position) {
        return program.calls[position].operation->sequence;
      };
      size_t a = 0;
      size_t b = 0;
      while (a < positions.size() && b < other->second.size()) {
        const uint64_t own_number = sequence_at(own, positions[a]);
        const uint64_t their_number = sequence_at(theirs, other->second[b]);
        if (own_number == their_number) {
          const Parting at{positions[a], other->second[b]};
          if (!best || at.own_at + at.their_at < best->own_at + best->their_at) {
            best = at;
          }
          break;
        }
        ++(own_number < their_number ? a : b);
      }
    }
    return best;
  }

  // What they called alike before the oldest collective of both: messages, as a rule.
  static size_t agreeing_before(const Program& own, const Program& theirs, const Parting& at) {
    size_t length = 0;
    while (length < at.own_at && length < at.their_at &&
           own.calls[at.own_at - 1 - length].key == theirs.calls[at.their_at - 1 - length].key) {
      ++length;
    }
    return length;
  }

  void compare(size_t a, size_t b) {
    const Program& own = programs_[a];
    const Program& theirs = programs_[b];
    auto at = anchor_of(own, theirs);
    if (!at) {
      return;
    }
    size_t common = agreeing_before(own, theirs, *at);
    while (at->own_at < own.calls.size() && at->their_at < theirs.calls.size()) {
      if (own.calls[at->own_at].key != theirs.calls[at->their_at].key) {
        if (common >= kLeastInCommon) {
          partings_[{a, b}] = *at;
        }
        return;
      }
      ++at->own_at;
      ++at->their_at;
      ++common;
    }
    leader_[find(a)] = find(b);
  }

  // How many calls before `at` are like those before `earlier`.
  static size_t context_of(const std::vector<Call>& calls, size_t at, size_t earlier) {
    size_t length = 0;
    while (length < earlier && length < kLongestContext &&
           calls[at - 1 - length].key == calls[earlier - 1 - length].key) {
      ++length;
    }
    return length;
  }

  // -1: the first did otherwise than each time before where so much had come alike, 1: the second
  // did; 0: that does not tell.
  int changed_habit(size_t a, size_t b, const Parting& parting) const {
    const Call& own = programs_[a].calls[parting.own_at];
    const Call& their = programs_[b].calls[parting.their_at];
    size_t own_context = 0;
    size_t their_context = 0;
    for (const auto& [program, at] :
         {std::pair(&programs_[a], parting.own_at), std::pair(&programs_[b], parting.their_at)}) {
      for (size_t earlier = 1; earlier < at; ++earlier) {
        const uint64_t key = program->calls[earlier].key;
        if (key == own.key) {
          own_context = std::max(own_context, context_of(program->calls, at, earlier));
        } else if (key == their.key) {
          their_context = std::max(their_context, context_of(program->calls, at, earlier));
        }
      }
    }
    return own_context == their_context ? 0 : own_context < their_context ? -1 : 1;
  }

  void add(size_t deviant, size_t normal, const Parting& parting, bool by_habit,
           std::set<size_t>& told, std::vector<Departure>& found) {
    if (!told.insert(deviant).second) {
      return;
    }
    Departure departure;
    departure.rank = programs_[deviant].rank;
    departure.twin = programs_[normal].rank;
    departure.at = parting.own_at;
    departure.twin_at = parting.their_at;
    departure.by_habit = by_habit;
    departure.edit =
        cheapest_edit(programs_[deviant], parting.own_at, programs_[normal], parting.their_at);
    const size_t leader = find(normal);
    for (size_t i = 0; i < programs_.size(); ++i) {
      if (find(i) == leader) {
        insert(departure.twins, programs_[i].rank);
      }
    }
    found.push_back(std::move(departure));
  }

  const Run& run_;
  const std::vector<Program>& programs_;
  std::vector<size_t> leader_;
  std::map<std::pair<size_t, size_t>, Parting> partings_;
};

}  // namespace

std::vector<Departure> departures_of(const Run& run, const std::vector<Program>& programs) {
  return Departures(run, programs).find();
}

}  // namespace traintrace
