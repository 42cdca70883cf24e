// What one rank sends to another, as both have called it.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/sequences.h"

namespace traintrace {

struct Channel {
  size_t communicator = 0;  // in Run::communicators
  const Member* from = nullptr;
  const Member* to = nullptr;
  Sequence sends;
  Sequence receives;
};

SequenceItem message_item(const OperationText& operation);

// Those whose counts or hashes differ, with the messages that the tables hold.
std::vector<Channel> differing_channels(const Run& run);

// Nobody is blamed yet.
std::optional<Divergence> first_difference(const Run& run, const Channel& channel);

// Those two that met, which have no numbers.  Nobody is blamed yet.
Divergence difference_of(size_t communicator, const SideCall& send, const SideCall& receive);

// Messages of one side that never had the other one, where both ranks have ended as they should and
// all others agree.  Nobody is blamed.
std::optional<Divergence> left_over_messages(const Run& run, const Channel& channel);

// By their hashes, something differs before the first message that both sides hold: its number,
// else 0.
uint64_t differs_before(const Channel& channel);

}  // namespace traintrace
