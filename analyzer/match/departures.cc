#include "analyzer/match/departures.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "analyzer/judge/frontier/standing.h"
#include "analyzer/match/habit_edits.h"
#include "analyzer/match/siblings.h"
#include "analyzer/model/peers.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr size_t kPartnersAside = 2;  // on either side, in each communicator
constexpr size_t kLongestContext = 4096;

struct Parting {
  size_t own_at = 0;
  size_t their_at = 0;
};

class Departures {
 public:
  Departures(const Run& run, const std::vector<Program>& programs, const Ranks& suspects)
      : run_(run), programs_(programs), suspects_(suspects), leader_(programs.size()) {
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
            first ? parting : Parting{parting.their_at, parting.own_at}, DepartureTold::kByMajority,
            told, found);
      } else {
        add_of_tie(a, b, parting, told, found);
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

  // What both have kept may begin right before what parts them: then they agree behind it, and in
  // no other way.  Of one collective that both called in two ways its match tells more.
  static bool agrees_behind(const Program& own, const Program& theirs, const Parting& at) {
    const CallEdit edit = cheapest_edit(own, at.own_at, theirs, at.their_at);
    return edit.unique && edit.matches >= kLeastInCommon;
  }

  void compare(size_t a, size_t b) {
    const Program& own = programs_[a];
    const Program& theirs = programs_[b];
    auto at = anchor_of(own, theirs);
    if (!at) {
      return;
    }
    size_t common = agreeing_before(own, theirs, *at);
    const bool is_all_before = common == std::min(at->own_at, at->their_at);
    while (at->own_at < own.calls.size() && at->their_at < theirs.calls.size()) {
      if (own.calls[at->own_at].key != theirs.calls[at->their_at].key) {
        if (common >= kLeastInCommon || (common > 0 && agrees_behind(own, theirs, *at))) {
          partings_[{a, b}] = *at;
        }
        return;
      }
      ++at->own_at;
      ++at->their_at;
      ++common;
    }
    // What they called before the oldest collective of both counts too.
    if (is_all_before) {
      leader_[find(a)] = find(b);
    }
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

  // How much came alike before the other times that `key` was called; none: it was not.
  using Context = std::optional<size_t>;

  Context context_of(const Program& program, size_t at, uint64_t key) const {
    Context longest;
    for (size_t earlier = 1; earlier < at; ++earlier) {
      if (program.calls[earlier].key == key) {
        longest = std::max(longest, Context(context_of(program.calls, at, earlier)));
      }
    }
    return longest;
  }

  // Most of what was called more than once was called in what came alike before: it is more than
  // some turns of a loop within a step.
  static bool spans_a_step(const Program& program, size_t at, size_t context) {
    std::map<uint64_t, size_t> times;
    std::set<uint64_t> within;
    for (size_t i = 0; i < at; ++i) {
      ++times[program.calls[i].key];
      if (i + context >= at) {
        within.insert(program.calls[i].key);
      }
    }
    std::erase_if(times, [](const auto& key) { return key.second == 1; });
    const auto alike = std::count_if(times.begin(), times.end(),
                                     [&](const auto& key) { return within.contains(key.first); });
    return static_cast<size_t>(alike) * 2 > times.size();
  }

  // -1: the first did otherwise than each time before where so much had come alike, 1: the second
  // did; 0: that does not tell.
  int changed_habit(size_t a, size_t b, const Parting& parting) const {
    const Program& first = programs_[a];
    const Program& second = programs_[b];
    const uint64_t first_key = first.calls[parting.own_at].key;
    const uint64_t second_key = second.calls[parting.their_at].key;
    const auto longest = [&](uint64_t key) {
      return std::max(context_of(first, parting.own_at, key),
                      context_of(second, parting.their_at, key));
    };
    const Context own = longest(first_key);
    const Context other = longest(second_key);
    if (own == other) {
      return 0;
    }
    // What was never called before may be the next thing in a step of which too little is kept.
    const bool told =
        (own && other) || spans_a_step(first, parting.own_at, std::max(own, other).value_or(0));
    return !told ? 0 : own < other ? -1 : 1;
  }

  // The call that one of two made and the other did not is a message.  Where the peers of both,
  // which run one program too, have made their side of it, the one that did not is wrong: -1, it is
  // the first, 1: the second.  Where neither has, the one that did.  0: that does not tell.
  int changed_by_peers(size_t a, size_t b, const Parting& parting) const {
    const CallEdit edit =
        cheapest_edit(programs_[a], parting.own_at, programs_[b], parting.their_at);
    const bool extra = edit.kind == CallEditKind::kExtra;
    if ((!extra && edit.kind != CallEditKind::kSkipped) || edit.length != 1 || !edit.unique) {
      return 0;
    }
    const Program& maker = programs_[extra ? a : b];
    const Program& other = programs_[extra ? b : a];
    const Call& call = maker.calls[extra ? parting.own_at : parting.their_at];
    const auto counterpart = counterpart_of(run_, call.communicator, maker.rank, other.rank);
    if (call.operation->collective || !counterpart) {
      return 0;
    }
    const int other_is_wrong = extra ? 1 : -1;
    if (call.operation->sequence == 0) {
      const Excess makers = excess_at(call.communicator, maker.rank, *call.operation);
      const Excess others = excess_at(*counterpart, other.rank, *call.operation);
      return makers == Excess::kNone && others == Excess::kOfPeer ? other_is_wrong
             : makers == Excess::kOwn && others == Excess::kNone  ? -other_is_wrong
                                                                  : 0;
    }
    const bool for_maker = is_answered(call.communicator, maker.rank, *call.operation);
    const bool for_other = is_answered(*counterpart, other.rank, *call.operation);
    return for_maker != for_other ? 0 : for_maker ? other_is_wrong : -other_is_wrong;
  }

  // Of messages that are not numbered: who has one of them left that the other does not answer.
  enum class Excess : uint8_t { kNone, kOwn, kOfPeer, kUnknown };

  Excess excess_at(size_t communicator, Rank rank, const OperationText& operation) const {
    const Member* const own = member_of(run_.communicators[communicator], rank);
    const Member* const peer = member_at(run_.communicators[communicator], operation.peer);
    if (own == nullptr || peer == nullptr) {
      return Excess::kUnknown;
    }
    const bool here = has_left(*own, operation.receive, operation.peer);
    const bool there = has_left(*peer, !operation.receive, own->local_rank);
    return here && there ? Excess::kUnknown
           : here        ? Excess::kOwn
           : there       ? Excess::kOfPeer
                         : Excess::kNone;
  }

  bool has_left(const Member& member, bool receive, int peer) const {
    const auto& recent = text_of(run_, member).recent;
    return std::any_of(recent.begin(), recent.end(), [&](const OperationText& operation) {
      return !operation.collective && operation.receive == receive && operation.peer == peer &&
             is_unfinished(run_.processes[member.process], operation);
    });
  }

  // Its peer there has made the other side of such a message.
  bool is_answered(size_t communicator, Rank rank, const OperationText& operation) const {
    const Communicator& on = run_.communicators[communicator];
    const Member* const own = member_of(on, rank);
    const Member* const peer = member_at(on, operation.peer);
    return own != nullptr && peer != nullptr &&
           has_posted(run_, *peer, !operation.receive, own->local_rank, operation.sequence);
  }

  std::pair<int, DepartureTold> side_of_tie(size_t a, size_t b, const Parting& parting) const {
    if (const int by_habit = changed_habit(a, b, parting); by_habit != 0) {
      return {by_habit, DepartureTold::kByHabit};
    }
    if (const int by_peers = changed_by_peers(a, b, parting); by_peers != 0) {
      return {by_peers, DepartureTold::kByPeers};
    }
    const int first = contains(suspects_, programs_[a].rank) ? 1 : 0;
    const int second = contains(suspects_, programs_[b].rank) ? 1 : 0;
    return {second - first, DepartureTold::kByMajority};
  }

  // As many did the one as the other.
  void add_of_tie(size_t a, size_t b, const Parting& parting, std::set<size_t>& told,
                  std::vector<Departure>& found) {
    const Program& own = programs_[a];
    const Program& theirs = programs_[b];
    const SiblingsSay say =
        ask_siblings(run_, own, own.calls[parting.own_at], theirs, theirs.calls[parting.their_at]);
    if (say.divided) {
      return;
    }
    const auto [side, by] = say.wrong != 0 ? std::pair(say.wrong, DepartureTold::kBySiblings)
                                           : side_of_tie(a, b, parting);
    const bool first = side < 0;
    if (side != 0 &&
        add(first ? a : b, first ? b : a,
            first ? parting : Parting{parting.their_at, parting.own_at}, by, told, found)) {
      std::for_each(say.ranks.begin(), say.ranks.end(),
                    [&](Rank rank) { insert(found.back().twins, rank); });
    }
  }

  // False: of that one another departure was found.
  bool add(size_t deviant, size_t normal, const Parting& parting, DepartureTold by,
           std::set<size_t>& told, std::vector<Departure>& found) {
    if (!told.insert(deviant).second) {
      return false;
    }
    Departure departure;
    departure.rank = programs_[deviant].rank;
    departure.twin = programs_[normal].rank;
    departure.at = parting.own_at;
    departure.twin_at = parting.their_at;
    departure.told = by;
    departure.edit = edit_by_habit(run_, programs_[deviant], parting.own_at, programs_[normal],
                                   parting.their_at);
    const size_t leader = find(normal);
    const size_t own_leader = find(deviant);
    for (size_t i = 0; i < programs_.size(); ++i) {
      if (find(i) == leader) {
        insert(departure.twins, programs_[i].rank);
      } else if (i != deviant && find(i) == own_leader) {
        insert(departure.alike, programs_[i].rank);
      }
    }
    found.push_back(std::move(departure));
    return true;
  }

  const Run& run_;
  const std::vector<Program>& programs_;
  const Ranks& suspects_;
  std::vector<size_t> leader_;
  std::map<std::pair<size_t, size_t>, Parting> partings_;
};

}  // namespace

std::vector<Departure> departures_of(const Run& run, const std::vector<Program>& programs,
                                     const Ranks& suspects) {
  return Departures(run, programs, suspects).find();
}

}  // namespace traintrace
