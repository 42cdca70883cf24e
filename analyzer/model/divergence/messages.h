// Sends and receives that do not belong together: NCCL matches the n-th send from one rank to
// another with the n-th receive there, whatever they are.
#pragma once

#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Bytes, or something else that is equal for equal arguments.
uint64_t size_key(const OperationText& operation);

// A message of up to so many bytes is buffered: its sender may be done without the receiver.
bool is_eager(const OperationText& operation);

SideCall call_of(const Run& run, const Member& member, const OperationText& operation);

// Adds the first difference of each pair of ranks that has one; what one rank did to several is
// one.
void find_message_faults(const Run& run, std::vector<Divergence>& found);

// Is one of both sides of it not known to be over?
bool is_pending(const Run& run, const Message& message);

// Adds who waits in those messages for whom.
void add_message_waits(const Run& run, std::vector<Wait>& waits);

}  // namespace traintrace
