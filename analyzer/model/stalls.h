// Operations that all members of a communicator have entered, and that do not end on some of them:
// nobody is missing, so it is the GPUs, their streams or what connects them.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

struct StalledRank {
  Rank rank;
  size_t process = 0;
  OperationText operation;
  GpuState gpu = GpuState::kUnknown;
  TimeNs stuck =
      0;  // how long its host, or what its GPU said, shows that it waits; 0: nothing does
  bool aborted = false;  // it gave the communicator up
};

enum class StallKind : uint8_t {
  kBehind,     // others have finished it
  kBlocked,    // it has not begun on some ranks: their streams are held up before it
  kNoRoom,     // its kernel does not run on some ranks, where that of another communicator does
  kTransport,  // all have begun it, or nothing says otherwise
};

struct Stall {
  StallKind kind = StallKind::kTransport;
  size_t communicator = 0;
  uint64_t sequence = 0;
  std::string function;
  std::vector<StalledRank> ranks;  // that have not finished it, by rank
  Ranks finished;
  Ranks suspects;      // kBehind, kBlocked: whose GPU or stream does not move
  bool known = false;  // what the GPUs or the streams said supports it
  TimeNs since = 0;    // all had entered it
  TimeNs waited = 0;
};

// By communicator.
std::vector<Stall> find_stalls(const Run& run);
// Those that nothing else explains, with the hangs that follow from each.
struct RootStall {
  Stall stall;
  const Hang* hang = nullptr;  // the first of them; null: nobody is missing anywhere
  Ranks victims;               // of all hangs that follow from it
};
std::vector<RootStall> root_stalls(const Run& run);

// Those that others wait for in that hang are its suspects, or wait in it themselves, or behind it
// for suspects of which is known that they are not through.
bool holds_up(const Run& run, const Stall& stall, const Hang& hang);

// What runs on the rank's device in place of it: an operation of another communicator.
struct Holder {
  size_t communicator = 0;
  OperationText operation;
};
std::optional<Holder> holder_of(const Run& run, const Stall& stall, const StalledRank& rank);

// How long the job took at most, from one operation of the communicator to the next or inside one
// call that returned before `until`, when it still moved.
TimeNs pace_of(const Run& run, const Communicator& communicator, TimeNs until);

}  // namespace traintrace
