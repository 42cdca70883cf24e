#include "analyzer/match/departure_divergence.h"

#include <algorithm>

#include "analyzer/model/divergence/abandoned_step.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

class Describer {
 public:
  Describer(const Run& run, const std::vector<Program>& programs, const Departure& departure)
      : run_(run),
        own_(*program_of(programs, departure.rank)),
        twin_(*program_of(programs, departure.twin)),
        departure_(departure) {}

  std::optional<Divergence> describe() {
    const auto communicator = own_communicator(twin_.calls[departure_.twin_at]);
    if (!communicator) {
      return std::nullopt;
    }
    found_.deviants = {departure_.rank};
    found_.parts = {found_.deviants};
    found_.twins = departure_.twins;
    found_.by_habit = departure_.told == DepartureTold::kByHabit;
    found_.by_peers = departure_.told == DepartureTold::kByPeers;
    found_.by_siblings = departure_.told == DepartureTold::kBySiblings;
    found_.length = departure_.edit.length;
    found_.matches = departure_.edit.foreseen ? 0 : departure_.edit.matches;
    found_.rest_of_step = departure_.edit.rest_of_step;
    found_.open = departure_.edit.kind == CallEditKind::kExtra && is_repeated();
    found_.exact = true;
    found_.communicator = *communicator;
    found_.own = side_call(own_, departure_.at, own_.calls[departure_.at].communicator);
    found_.expected = side_call(twin_, departure_.twin_at, *communicator);
    const auto kind = kind_of();
    if (!kind) {
      return std::nullopt;
    }
    found_.kind = *kind;
    found_.sequence = found_.sequence_last = found_.met =
        found_.kind == DivergenceKind::kExtra ? found_.own.item.operation.sequence
                                              : found_.expected.item.operation.sequence;
    for (const Member& member : run_.communicators[found_.communicator].members) {
      if (member.rank != departure_.rank) {
        insert(found_.others, member.rank);
      }
    }
    take_for_abandoned_step(run_, found_);
    return found_;
  }

 private:
  std::optional<size_t> own_communicator(const Call& twins) const {
    return counterpart_of(run_, twins.communicator, twin_.rank, own_.rank);
  }

  // The number that a collective issued there has on that communicator of the deviant.
  uint64_t number_at(size_t communicator) const {
    const auto known = own_.collectives.find(communicator);
    if (known == own_.collectives.end()) {
      return 0;
    }
    const auto next = std::lower_bound(known->second.begin(), known->second.end(), departure_.at);
    return next == known->second.end() ? own_.calls[known->second.back()].operation->sequence + 1
                                       : own_.calls[*next].operation->sequence;
  }

  SideCall side_call(const Program& program, size_t at, size_t communicator) const {
    const Call& call = program.calls[at];
    SideCall side{program.rank, program.state->process, {}};
    side.item = sequence_item(run_.processes[side.process], *call.operation);
    if (&program == &twin_) {
      if (call.operation->collective) {
        side.item.operation.sequence = number_at(communicator);
      } else {
        side.item.operation.peer = peer_there(own_, communicator, call);
      }
    }
    return side;
  }

  std::optional<DivergenceKind> kind_of() {
    const OperationText& own = found_.own.item.operation;
    const OperationText& expected = found_.expected.item.operation;
    switch (departure_.edit.kind) {
      case CallEditKind::kSkipped:
        return left_out(expected);
      case CallEditKind::kExtra:
        found_.communicator = own_.calls[departure_.at].communicator;
        return own.collective ? DivergenceKind::kExtra
               : own.receive  ? DivergenceKind::kMissingSend
                              : DivergenceKind::kMissingReceive;
      case CallEditKind::kSwapped:
      case CallEditKind::kMoved:
      case CallEditKind::kEarly:
        return swapped();
      case CallEditKind::kChanged:
        return changed(own, expected);
    }
    return std::nullopt;
  }

  static DivergenceKind left_out(const OperationText& expected) {
    return expected.collective ? DivergenceKind::kSkipped
           : expected.receive  ? DivergenceKind::kMissingReceive
                               : DivergenceKind::kMissingSend;
  }

  bool on_one_communicator() const {
    return own_.calls[departure_.at].communicator == found_.communicator;
  }

  std::optional<DivergenceKind> swapped() {
    const bool is_early = departure_.edit.kind == CallEditKind::kEarly;
    const size_t later = departure_.at + (is_early ? 1 : departure_.edit.length);
    if (later < own_.calls.size()) {
      found_.own_second = side_call(own_, later, found_.communicator);
    }
    found_.used = own_.calls[departure_.at].communicator;
    const bool messages =
        !found_.own.item.operation.collective && !found_.expected.item.operation.collective;
    const bool collectives =
        found_.own.item.operation.collective && found_.expected.item.operation.collective;
    return messages || (!collectives && on_one_communicator()) ? DivergenceKind::kMessageOrder
           : on_one_communicator()                             ? DivergenceKind::kSwapped
                                   : DivergenceKind::kSwappedCommunicators;
  }

  std::optional<DivergenceKind> changed(const OperationText& own, const OperationText& expected) {
    const bool alike = is_same_function(found_.own.item, found_.expected.item) &&
                       own.count == expected.count && own.data_type == expected.data_type;
    found_.used = own_.calls[departure_.at].communicator;
    if (own.collective && expected.collective && !on_one_communicator()) {
      return alike ? DivergenceKind::kOtherCommunicator : instead_of();
    }
    if (own.collective != expected.collective) {
      return own.collective ? std::nullopt : std::optional(DivergenceKind::kPeer);
    }
    if (own.collective) {
      return !is_same_function(found_.own.item, found_.expected.item) ? DivergenceKind::kFunction
             : own.data_type != expected.data_type                    ? DivergenceKind::kType
                                                                      : DivergenceKind::kCount;
    }
    if (own.receive != expected.receive) {
      return std::nullopt;
    }
    if (alike && is_group_elsewhere()) {
      return DivergenceKind::kOtherCommunicator;
    }
    if (!is_same_peer(own.peer, expected.peer)) {
      return DivergenceKind::kWrongPeer;
    }
    return alike && !on_one_communicator() ? std::optional(DivergenceKind::kOtherCommunicator)
                                           : std::nullopt;
  }

  // It called something on another communicator.  The other order is only said of a call that comes
  // in its steps elsewhere.
  DivergenceKind instead_of() {
    if (!was_called_before(own_.calls[departure_.at].key)) {
      return DivergenceKind::kFunction;
    }
    if (departure_.edit.matches == 0) {
      return DivergenceKind::kSkipped;
    }
    const auto later = std::find_if(
        own_.calls.begin() + static_cast<ptrdiff_t>(departure_.at), own_.calls.end(),
        [&](const Call& call) { return call.key == twin_.calls[departure_.twin_at].key; });
    if (later != own_.calls.end()) {
      found_.own_second =
          side_call(own_, static_cast<size_t>(later - own_.calls.begin()), found_.communicator);
    }
    return DivergenceKind::kSwappedCommunicators;
  }

  bool was_called_before(uint64_t key) const {
    const auto end = own_.calls.begin() + static_cast<ptrdiff_t>(departure_.at);
    return std::any_of(own_.calls.begin(), end, [&](const Call& call) { return call.key == key; });
  }

  // It made the same call right before, and at an earlier time others came between two such.
  bool is_repeated() const {
    const size_t length = departure_.edit.length;
    const auto repeats = [&](size_t at) {
      return own_.calls[at].key == own_.calls[departure_.at].key;
    };
    if (departure_.at < length || !repeats(departure_.at - length)) {
      return false;
    }
    for (size_t i = 0; i + 2 * length <= departure_.at; ++i) {
      if (repeats(i) && !repeats(i + length)) {
        return true;
      }
    }
    return false;
  }

  // Messages that were issued as one, as an all-to-all is, with the same places on another
  // communicator: other ranks are there, but the communicator is all that was changed.
  bool is_group_elsewhere() const {
    const size_t block = departure_.edit.block;
    if (block < 2 || on_one_communicator()) {
      return false;
    }
    for (size_t i = 0; i < block; ++i) {
      const Call& own = own_.calls[departure_.at + i];
      const Call& twins = twin_.calls[departure_.twin_at + i];
      if (own.communicator != found_.used ||
          twins.communicator != twin_.calls[departure_.twin_at].communicator ||
          own.operation->collective || own.operation->receive != twins.operation->receive ||
          own.operation->peer != twins.operation->peer) {
        return false;
      }
    }
    return true;
  }

  // Each pair of ranks may have a communicator of its own.
  bool is_same_peer(int own, int expected) const {
    const Member* const named = member_at(run_.communicators[found_.used], own);
    const Member* const meant = member_at(run_.communicators[found_.communicator], expected);
    return named != nullptr && meant != nullptr ? named->rank == meant->rank
                                                : own == expected && on_one_communicator();
  }

  const Run& run_;
  const Program& own_;
  const Program& twin_;
  const Departure& departure_;
  Divergence found_;
};

}  // namespace

std::optional<Divergence> divergence_of(const Run& run, const std::vector<Program>& programs,
                                        const Departure& departure) {
  return Describer(run, programs, departure).describe();
}

}  // namespace traintrace
