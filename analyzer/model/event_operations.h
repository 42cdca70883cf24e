// Collectives and messages as the event records of a process have them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/model/sequence_item.h"

namespace traintrace {

using EventOperations = std::map<uint64_t, SequenceItem>;  // by sequence

// Of the communicator at that index.
EventOperations event_operations(const ProcessTrace& trace, size_t communicator);

using EventMessages = std::map<uint64_t, OperationText>;  // by their number

// Sends to that rank of the communicator, or receives from it.
EventMessages event_messages(const ProcessTrace& trace, size_t communicator, int peer,
                             bool receive);

struct EventOperation {
  size_t communicator = 0;  // its index in the trace
  OperationText operation;
};

// Nothing: the call is none, or which communicator it was for is not known.
std::optional<EventOperation> operation_in(const ProcessTrace& trace, const CallRecord& event);

// The newest `most` of all communicators, collectives and messages, in the order of their records.
std::vector<EventOperation> newest_event_operations(const ProcessTrace& trace, size_t most);

}  // namespace traintrace
