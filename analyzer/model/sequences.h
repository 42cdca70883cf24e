// What one member of a communicator has issued there, in order: the newest collectives, and hashes
// of all that came before them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/sequence_item.h"

namespace traintrace {

struct Sequence {
  const Member* member = nullptr;
  uint64_t reached = 0;             // number of the last collective that it entered
  uint64_t first = 1;               // number of the oldest that is known
  std::vector<SequenceItem> items;  // first..reached
  // Hash of all up to `first - 1 + i`; empty: not known.
  std::vector<uint64_t> hashes;
  std::vector<format::Checkpoint> checkpoints;  // before `first`

  const SequenceItem* at(uint64_t number) const {
    return number < first || number > reached ? nullptr : &items[number - first];
  }
  // Of all up to `number`.
  std::optional<uint64_t> hash_at(uint64_t number) const;
};

SequenceItem sequence_item(const ProcessTrace& trace, const OperationText& operation);

// Of at most so many of the newest.
Sequence sequence_of(const Run& run, const Member& member, size_t most = SIZE_MAX);

// Of all members of a communicator, in their order; made when they are asked for first.
class MemberSequences {
 public:
  // The run must outlive it.
  explicit MemberSequences(const Run& run) : run_(run) {}

  const std::vector<Sequence>& of(size_t communicator);
  // They are made again if somebody asks.
  void forget(size_t communicator) { known_.erase(communicator); }

 private:
  const Run& run_;
  std::map<size_t, std::vector<Sequence>> known_;  // by communicator
};

// Of messages between two ranks: the hash before each of them, and `newest` behind the last.
std::vector<uint64_t> message_hashes(uint64_t newest, const std::vector<SequenceItem>& items);

// Equal wherever the same lines called; 0 for a stack that is not known.
uint64_t site_of(const ProcessTrace& trace, uint32_t stack);

}  // namespace traintrace
