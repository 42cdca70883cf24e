#include "analyzer/match/repair.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "analyzer/match/repaired_calls.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

bool is_complete(const Run& run, size_t process, const OperationText& operation) {
  return !is_unfinished(run.processes[process], operation);
}

// Messages issued as one are complete together, and one of them may have met its other side before:
// which that is, a dump does not say.
enum class Partly : uint8_t {
  kFirst,      // those that must have, by numbers and times
  kWhenStuck,  // where nothing else goes on, all that can have
};

// Completes what can be, in the order of each rank.
class Drain {
 public:
  Drain(const Run& run, const Standings& standings, const std::vector<Program>& programs,
        Partly partly)
      : run_(run), standings_(standings), partly_(partly) {
    for (const Program& program : programs) {
      Queue& queue = queues_[program.rank];
      for (const Call& call : program.calls) {
        if (!is_complete(run, program.state->process, *call.operation)) {
          queue.push_back({call.operation, call.communicator, call.operation->sequence,
                           call.operation->peer, call.operation->group, program.state->process});
        }
      }
      mark_received(program.rank, queue);
    }
  }

  // `queue` takes the place of what the rank called since then.
  void replace(Rank rank, TimeNs since, const Queue& queue) {
    Queue& own = queues_.at(rank);
    std::erase_if(own, [&](const Issued& issued) { return issued.operation->enter >= since; });
    own.insert(own.end(), queue.begin(), queue.end());
    mark_received(rank, own);
    std::set<Number>& numbers = edited_[rank];
    for (const Issued& issued : own) {
      if (issued.operation->collective) {
        numbers.insert({issued.communicator, issued.sequence});
      }
    }
  }

  // How many calls of ranks other than those complete.
  size_t run_out(const Ranks& ranks) {
    std::vector<Rank> open;
    for (const auto& [own, queue] : queues_) {
      open.push_back(own);
    }
    do {
      while (!open.empty()) {
        const Rank next = open.back();
        open.pop_back();
        arrive(next, open);
      }
      if (partly_ == Partly::kWhenStuck) {
        complete_in_part(open);
      }
    } while (!open.empty());
    size_t completed = 0;
    for (const auto& [own, count] : completed_) {
      completed += contains(ranks, own) ? 0 : count;
    }
    return completed;
  }

  // It is in a collective for which others gave something else.
  bool is_at_odds(Rank rank) {
    const Queue& queue = queues_.at(rank);
    return !queue.empty() && queue.front().operation->collective &&
           match_of({queue.front().communicator, queue.front().sequence}).differs;
  }

  // Ranks that have neither run out of calls nor wait for such that have.
  size_t stuck() {
    std::set<Rank> free;
    for (const auto& [rank, queue] : queues_) {
      if (queue.empty()) {
        free.insert(rank);
      }
    }
    for (size_t before = 0; before != free.size() + 1;) {
      before = free.size() + 1;
      for (const auto& [rank, queue] : queues_) {
        if (!free.contains(rank) && waits_only_for(rank, queue, free)) {
          free.insert(rank);
        }
      }
    }
    return queues_.size() - free.size();
  }

 private:
  using Number = std::pair<size_t, uint64_t>;  // communicator, sequence

  struct Match {
    size_t needed = 0;
    std::set<Rank> here;
    bool differs = false;
    const Issued* first = nullptr;
  };

  // Of messages issued as one, all count as unfinished until the last of them is done.  Of those
  // that a rank exchanges with another, only the first can have met its other side.
  void mark_received(Rank rank, Queue& queue) const {
    for (Issued& issued : queue) {
      issued.met = issued.met || (!issued.added && !issued.operation->collective &&
                                  is_other_side_evicted(rank, issued));
    }
    if (partly_ != Partly::kFirst) {
      return;
    }
    std::set<std::tuple<size_t, int, bool>> seen;
    for (Issued& issued : queue) {
      const bool first =
          !issued.operation->collective &&
          seen.emplace(issued.communicator, issued.peer, issued.operation->receive).second;
      issued.met = issued.met || (first && !issued.added && is_other_side_done(rank, issued));
    }
  }

  // Its peer has issued the other side before all that is kept of it.
  bool is_other_side_evicted(Rank rank, const Issued& issued) const {
    const Communicator& communicator = run_.communicators[issued.communicator];
    const Member* const own = member_of(communicator, rank);
    const Member* const peer = member_at(communicator, issued.peer);
    if (own == nullptr || peer == nullptr || issued.operation->sequence == 0) {
      return false;
    }
    const auto& theirs = text_of(run_, *peer).recent;
    const auto oldest = std::find_if(theirs.begin(), theirs.end(), [&](const OperationText& other) {
      return !other.collective && other.receive != issued.operation->receive &&
             other.peer == own->local_rank;
    });
    return oldest != theirs.end() && theirs.front().index != 0 &&
           issued.operation->sequence < oldest->sequence;
  }

  // Its peer is through with the other side: by their numbers; where messages are not numbered, if
  // the peer issued what it has completed last after all earlier ones had been completed here.
  bool is_other_side_done(Rank rank, const Issued& issued) const {
    const Communicator& communicator = run_.communicators[issued.communicator];
    const Member* const own = member_of(communicator, rank);
    const Member* const peer = member_at(communicator, issued.peer);
    if (own == nullptr || peer == nullptr || issued.operation->group == 0) {
      return false;
    }
    TimeNs earlier = 0;  // when the one before it was completed here
    for (const OperationText& other : text_of(run_, *own).recent) {
      if (!other.collective && other.receive == issued.operation->receive &&
          other.peer == issued.peer && is_complete(run_, own->process, other)) {
        earlier = std::max(earlier, other.completed);
      }
    }
    const auto& theirs = text_of(run_, *peer).recent;
    return std::any_of(theirs.begin(), theirs.end(), [&](const OperationText& other) {
      const bool meets = !other.collective && other.receive != issued.operation->receive &&
                         other.peer == own->local_rank && is_complete(run_, peer->process, other);
      return meets &&
             (issued.operation->sequence != 0 ? other.sequence == issued.operation->sequence
                                              : earlier != 0 && other.enter > earlier &&
                                                    other.completed >= issued.operation->enter);
    });
  }

  // It has done its part of that collective, or will not be asked for it.
  bool is_past(const Member& member, const Number& number) const {
    const auto edited = edited_.find(member.rank);
    if (edited != edited_.end() && edited->second.contains(number)) {
      return false;
    }
    const auto* const operation = standings_.collective(member, number.second);
    return operation != nullptr
               ? edited != edited_.end() || is_complete(run_, member.process, *operation)
               : number.second <=
                     sequence_reached(run_.processes[member.process], text_of(run_, member));
  }

  Match& match_of(const Number& number) {
    const auto [at, is_new] = matches_.try_emplace(number);
    if (is_new) {
      for (const Member& member : run_.communicators[number.first].members) {
        at->second.needed += is_past(member, number) ? 0 : 1;
      }
    }
    return at->second;
  }

  bool agree(const Issued& a, const Issued& b) const {
    const OperationText& x = *a.operation;
    const OperationText& y = *b.operation;
    return call_name(run_.processes[a.process], x.call) ==
               call_name(run_.processes[b.process], y.call) &&
           (x.data_type < 0 || y.data_type < 0 ||
            (x.count == y.count && x.data_type == y.data_type));
  }

  void arrive(Rank rank, std::vector<Rank>& open) {
    Queue& queue = queues_.at(rank);
    if (queue.empty()) {
      return;
    }
    if (queue.front().operation->collective) {
      enter(rank, queue.front(), open);
    } else {
      exchange(rank, queue, open);
    }
  }

  void enter(Rank rank, const Issued& issued, std::vector<Rank>& open) {
    Match& match = match_of({issued.communicator, issued.sequence});
    if (!match.here.insert(rank).second) {
      return;
    }
    match.first = match.first == nullptr ? &issued : match.first;
    match.differs = match.differs || !agree(*match.first, issued);
    if (match.here.size() < match.needed || match.differs) {
      return;
    }
    for (const Rank member : match.here) {
      queues_.at(member).pop_front();
      ++completed_[member];
      open.push_back(member);
    }
  }

  // The messages at the front that were issued as one.
  static size_t batch_of(const Queue& queue) {
    size_t length = 1;
    while (queue.front().group != 0 && length < queue.size() &&
           !queue[length].operation->collective && queue[length].group == queue.front().group) {
      ++length;
    }
    return length;
  }

  Issued* counterpart(Rank rank, const Issued& issued) {
    const Communicator& communicator = run_.communicators[issued.communicator];
    const Member* const own = member_of(communicator, rank);
    const Member* const peer = member_at(communicator, issued.peer);
    if (own == nullptr || peer == nullptr || queues_.at(peer->rank).empty()) {
      return nullptr;
    }
    Queue& theirs = queues_.at(peer->rank);
    if (theirs.front().operation->collective) {
      return nullptr;
    }
    const size_t length = batch_of(theirs);
    for (size_t i = 0; i < length; ++i) {
      Issued& other = theirs[i];
      if (!other.met && other.communicator == issued.communicator &&
          other.operation->receive != issued.operation->receive &&
          (other.peer == own->local_rank || other.peer < 0)) {
        return &other;
      }
    }
    return nullptr;
  }

  // When the peer last completed its side of such a message; 0: never, as far as is kept.
  TimeNs met_at(Rank rank, const Issued& issued) {
    const Communicator& communicator = run_.communicators[issued.communicator];
    const Member* const own = member_of(communicator, rank);
    const Member* const peer = member_at(communicator, issued.peer);
    if (own == nullptr || peer == nullptr) {
      return 0;
    }
    const auto [at, is_new] =
        met_.try_emplace({issued.communicator, rank, peer->rank, issued.operation->receive}, 0);
    if (is_new) {
      for (const OperationText& other : text_of(run_, *peer).recent) {
        if (!other.collective && other.receive != issued.operation->receive &&
            other.peer == own->local_rank && is_complete(run_, peer->process, other)) {
          at->second = std::max(at->second, other.completed);
        }
      }
    }
    return at->second;
  }

  void exchange(Rank rank, Queue& queue, std::vector<Rank>& open) {
    const size_t parts = batch_of(queue);
    for (size_t i = 0; i < parts; ++i) {
      Issued* const other = queue[i].met ? nullptr : counterpart(rank, queue[i]);
      if (other != nullptr) {
        queue[i].met = other->met = true;
        open.push_back(member_at(run_.communicators[queue[i].communicator], queue[i].peer)->rank);
      }
    }
    const bool all = std::all_of(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(parts),
                                 [](const Issued& issued) { return issued.met; });
    if (all) {
      complete_batch(rank, queue, parts, open);
    }
  }

  void complete_batch(Rank rank, Queue& queue, size_t parts, std::vector<Rank>& open) {
    queue.erase(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(parts));
    ++completed_[rank];
    open.push_back(rank);
  }

  // Messages issued as one are complete together: one of them may have met its other side before,
  // which is complete there and so not in a queue any more.
  void complete_in_part(std::vector<Rank>& open) {
    for (auto& [rank, queue] : queues_) {
      if (queue.empty() || queue.front().operation->collective || completed_.contains(rank)) {
        continue;
      }
      const size_t parts = batch_of(queue);
      size_t met = 0;
      bool possible = true;
      for (size_t i = 0; i < parts; ++i) {
        met += queue[i].met ? 1 : 0;
        possible = possible && (queue[i].met || (!queue[i].added && met_at(rank, queue[i]) >=
                                                                        queue[i].operation->enter));
      }
      if (met > 0 && possible) {
        complete_batch(rank, queue, parts, open);
      }
    }
  }

  bool waits_only_for(Rank rank, const Queue& queue, const std::set<Rank>& free) {
    const Issued& front = queue.front();
    if (front.operation->collective) {
      const Match& match = match_of({front.communicator, front.sequence});
      return !match.differs &&
             std::all_of(run_.communicators[front.communicator].members.begin(),
                         run_.communicators[front.communicator].members.end(),
                         [&](const Member& member) {
                           return match.here.contains(member.rank) || free.contains(member.rank) ||
                                  is_past(member, {front.communicator, front.sequence});
                         });
    }
    const Member* const own = member_of(run_.communicators[front.communicator], rank);
    for (size_t i = 0; own != nullptr && i < batch_of(queue); ++i) {
      const Member* const peer = member_at(run_.communicators[front.communicator], queue[i].peer);
      if (!queue[i].met && peer != nullptr && !free.contains(peer->rank)) {
        return false;
      }
    }
    return true;
  }

  const Run& run_;
  const Standings& standings_;
  const Partly partly_;
  std::map<Rank, Queue> queues_;
  std::map<Number, Match> matches_;
  std::map<std::tuple<size_t, Rank, Rank, bool>, TimeNs> met_;
  std::map<Rank, size_t> completed_;
  std::map<Rank, std::set<Number>> edited_;  // and the collectives that those have yet to do
};

// A departure put right.
struct Mended {
  Rank rank;
  TimeNs since = 0;
  Queue queue;
};

std::optional<Mended> mended(const Run& run, const std::vector<Program>& programs,
                             const Departure& departure) {
  auto queue = repaired_calls(run, programs, departure);
  if (!queue) {
    return std::nullopt;
  }
  std::erase_if(*queue, [&](const Issued& issued) {
    return !issued.added && !issued.operation->collective &&
           is_complete(run, issued.process, *issued.operation);
  });
  const Program& own = *program_of(programs, departure.rank);
  return Mended{departure.rank, own.calls[departure.at].operation->enter, std::move(*queue)};
}

}  // namespace

Freed freed_by_repair(const Run& run, const Standings& standings,
                      const std::vector<Program>& programs,
                      const std::vector<Departure>& departures) {
  constexpr Partly kWays[] = {Partly::kFirst, Partly::kWhenStuck};
  std::vector<Mended> all;
  Ranks ranks;
  for (const Departure& departure : departures) {
    auto one = mended(run, programs, departure);
    if (!one) {
      return Freed::kNobody;
    }
    insert(ranks, one->rank);
    all.push_back(std::move(*one));
  }
  Freed freed = Freed::kNobody;
  for (const Partly partly : kWays) {
    Drain before(run, standings, programs, partly);
    Drain after(run, standings, programs, partly);
    for (const Mended& one : all) {
      after.replace(one.rank, one.since, one.queue);
    }
    const size_t completed = before.run_out(ranks);
    const bool more = after.run_out(ranks) > completed;
    if (more && std::none_of(ranks.begin(), ranks.end(),
                             [&](Rank rank) { return after.is_at_odds(rank); })) {
      const size_t stuck = after.stuck();
      const bool some = stuck <= before.stuck();
      freed = std::max(freed, !some ? Freed::kNobody : stuck == 0 ? Freed::kAll : Freed::kSome);
    }
  }
  return freed;
}

}  // namespace traintrace
