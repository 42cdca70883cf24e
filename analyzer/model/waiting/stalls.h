// Operations that all members of a communicator have entered, or messages of which both sides are
// issued, and that do not end on some of them: nobody is missing, so it is the GPUs, their streams
// or what connects them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// How long a host waited in an operation: as shown, for which the events are needed where it polls
// or has returned since, or at most, by the tables alone.
enum class HostWait : uint8_t { kShown, kAtMost };

// By communicator.  By kAtMost there is one wherever there is one by kShown, and others.
std::vector<Stall> find_stalls(const Run& run, HostWait wait = HostWait::kShown);
// Those that nothing else explains, with the hangs that follow from each.
struct RootStall {
  Stall stall;
  const Hang* hang = nullptr;  // the first of them; null: nobody is missing anywhere
  Ranks victims;               // of all hangs that follow from it
};
std::vector<RootStall> root_stalls(const Run& run);

// One of `stalls` is the reason for that hang: those that others wait for in it are the suspects of
// the stall, or wait in it themselves, or behind it for suspects of which is known that they are
// not through; or, if the stall is the first, in what follows from it.
bool holds_up(const Run& run, const std::vector<Stall>& stalls, const Stall& stall,
              const Hang& hang);

// Something else lies before it on the rank's streams and is not known to be over.
bool is_behind_another(const Run& run, const Stall& stall, const StalledRank& rank);
// None of its ranks has it behind something else: the stall does not follow from another.
bool is_first(const Run& run, const Stall& stall);

struct StallPart {
  const Member* member = nullptr;
  const OperationText* operation = nullptr;
};
// If that operation has not ended for longer than the job's pace explains.  `sequence`: 0 for
// messages.
std::optional<Stall> stall_of_parts(const Run& run, size_t communicator, uint64_t sequence,
                                    const std::vector<StallPart>& parts, HostWait wait);

// What runs on the rank's device in place of it: an operation of another communicator.
struct OccupyingOperation {
  size_t communicator = 0;
  OperationText operation;
};
std::optional<OccupyingOperation> holder_of(const Run& run, const Stall& stall,
                                            const StalledRank& rank);

}  // namespace traintrace
