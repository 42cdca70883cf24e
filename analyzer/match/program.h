// What each rank called, of all communicators, in the order in which it issued it: in a form in
// which ranks that run the same program can be compared call by call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"

namespace traintrace {

struct Call {
  // What was called, with what, from which line, on which of the rank's communicators and with
  // which peer there: equal on ranks that run the same program, each on communicators of its own.
  uint64_t key = 0;
  uint64_t without_line = 0;  // the same, from whatever line
  const OperationText* operation = nullptr;
  uint32_t communicator = 0;  // in Run::communicators
};

struct Program {
  Rank rank;
  const RankState* state = nullptr;
  std::vector<Call> calls;
  // Where its collectives are in `calls`, by communicator; by sequence.
  std::map<size_t, std::vector<uint32_t>> collectives;
  // Its groups' sizes, and its place in those that carry messages: ranks of other roles call other
  // things.
  uint64_t role = 0;
  std::vector<OperationText> older;  // of the event records: what the tables do not keep any more
  // Nothing is left out between its first record and its last, the groups are numbered, and it goes
  // back as far as others that it may be compared with.
  bool whole = true;
};

// Of all ranks that left a trace; by rank.  As far back as the tables of their traces go.
std::vector<Program> programs_of(const Run& run);

// Those of `ranks` as far back as the event records go too, or some thousand calls.
std::vector<Program> longer_programs_of(const Run& run, const ReadEvents& read_events,
                                        const Ranks& ranks);

const Program* program_of(const std::vector<Program>& programs, Rank rank);

// The communicator of `rank` that its process created as the other created `communicator`; none:
// it has none such, or that is not known.
std::optional<size_t> counterpart_of(const Run& run, size_t communicator, Rank other, Rank rank);

// Whom a rank that runs the same program exchanges the message `theirs` of another with, on the
// communicator where it has its place: another member than that one, if each sends to the next in a
// ring.
int peer_there(const Program& own, size_t communicator, const Call& theirs);

}  // namespace traintrace
