// Members of a communicator that did not issue the same collectives: NCCL matches the n-th of each
// with the n-th of all others, whatever they are.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/model/sequence_item.h"

namespace traintrace {

struct Run;

enum class DivergenceKind : uint8_t {
  kSkipped,
  kExtra,
  kSwapped,
  kFunction,
  kCount,
  kEmpty,
  kType,
  kHarmlessType,  // of as many bytes, where data is only copied
  kRoot,
  kReduction,
  kOtherCommunicator,  // of the same members
  kPeer,               // a send or receive instead
  // Of sends and receives between two ranks (transfers.h):
  kMessageCount,
  kMessageType,
  kHarmlessMessageType,  // of as many bytes
  kMessageOrder,
  kMissingReceive,  // left out: what follows agrees
  kMissingSend,
  kWrongPeer,
  kExchange,              // an all-to-all of sends and receives
  kGroups,                // the same collectives in other groups
  kSwappedCommunicators,  // two calls in the other order, of two communicators
  kUnknown,               // by their hashes; the place is not kept
};

// A call of one rank that stands for all of its side.
struct SideCall {
  Rank rank;
  size_t process = 0;
  SequenceItem item;
};

// A send and the receive that it met, or should have.
struct Message {
  SideCall send;
  SideCall receive;
};

struct Divergence {
  DivergenceKind kind = DivergenceKind::kUnknown;
  size_t communicator = 0;
  uint64_t sequence = 0;       // the first collective that differs
  uint64_t sequence_last = 0;  // it is one of these; equal: exactly that one
  uint64_t met = 0;            // where calls met that do not belong together
  uint64_t length = 1;         // calls skipped or made in excess; distance of those swapped
  uint64_t matches = 0;        // collectives behind it that agree again
  uint64_t more = 0;           // further differences behind it
  size_t used = 0;             // kOtherCommunicator, kWrongPeer: the one that was used
  Ranks deviants;              // fewer than the others, unless it is a tie
  std::vector<Ranks> parts;    // deviants, by what they did
  Ranks others;                // who agree with one another
  bool tie = false;            // who is wrong cannot be said
  bool exact = false;          // both calls that met are known
  bool by_site = false;        // sizes are equal: only the lines that called tell
  bool counted = false;        // only that something is missing tells: it may still come
  bool grouped = false;        // swapped inside a group, which NCCL sorts
  bool complete = false;       // all members have come that far, and left a trace
  SideCall own;                // the first deviant call
  SideCall expected;           // what the others called there
  SideCall own_second;         // of those swapped: the later one
  SideCall expected_second;
  std::vector<Message> messages;  // all that disagree, of sends and receives
  // Ranks that run the same program as the deviant, and agree with each other: what `expected` is
  // taken from (match/departures.h).  Empty: it was found in another way.
  Ranks twins;
  bool by_habit = false;  // the deviant's own calls before that tell, not that the twins are more
  // As many did the one as the other; of both, the peer made the other side of the message, or of
  // neither.
  bool by_peers = false;
  bool left_over = false;  // messages without their other side, of ranks that have both ended
  // kSkipped: all that remained of a step; `own` is the first call of the next one.
  bool rest_of_step = false;
  bool open = false;  // as many calls left out and made in excess explain it: no proof
  // As many did the one as the other; `twins` did it in other groups of that kind too.
  bool by_siblings = false;
};

constexpr bool is_of_messages(DivergenceKind kind) {
  return kind >= DivergenceKind::kMessageCount && kind <= DivergenceKind::kExchange;
}

constexpr bool is_harmless(DivergenceKind kind) {
  return kind == DivergenceKind::kHarmlessType || kind == DivergenceKind::kHarmlessMessageType;
}

// By communicator, then sequence; those that only lines tell are behind the others.
std::vector<Divergence> find_divergences(const Run& run);

// What `deviant` did otherwise than `normal`, where both agree up to the number before.
struct Sequence;
Divergence difference_at(const Sequence& deviant, const Sequence& normal, uint64_t number);

}  // namespace traintrace
