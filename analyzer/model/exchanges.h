// Operations that lie on the streams of several ranks and begin when all of them have come to it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// An operation of one rank, on a stream of its own.
struct Part {
  const Member* member = nullptr;
  const OperationText* operation = nullptr;
  bool blocks = true;  // its stream, until all parts have begun
};

// What is called by all that it needs, and not known to be over on all of them: a collective, or a
// message.
struct Exchange {
  size_t communicator = 0;  // in Run::communicators
  uint64_t sequence = 0;
  std::vector<Part> parts;  // of a message the receiver's first
};

// Null: it is over, will not run, or nobody knows where on its stream it lies.
const OperationText* pending(const Run& run, const Member& member, const OperationText* operation);

// Both are parts of one group, which begins as one; where groups are not numbered: they may be.
bool may_be_one_group(const OperationText& a, const OperationText& b);

// Messages of that communicator that have been sent and received, by receiver and its calls.
std::vector<Exchange> messages_of(const Run& run, size_t communicator);

// Who of it waits, and for whom: those whose part lies behind something that cannot finish.
Wait wait_in(const Run& run, const Exchange& exchange,
             const std::function<bool(const Part&)>& is_behind);

// Somebody is known to wait in that operation.
bool is_known(const Wait& wait, const std::vector<Wait>& waits);

}  // namespace traintrace
