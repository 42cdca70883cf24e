// What streams of a process were told to wait for by events: frameworks give each communicator a
// stream, and order them in this way.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/narrow_divergences.h"
#include "analyzer/model/run.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

// From its event records, as far as they are kept: what is lost only hides an order.  Nobody will
// ask about operations entered before `since`.
StreamOrder stream_order_of(const ProcessTrace& trace, TimeNs since);

// Fills Run::stream_orders for processes that have operations on several streams which are not
// known to be over.  Whether there are any.
bool find_stream_orders(Run& run, const ReadEvents& read_events);

// Both of one process: `then` begins when `first` is over, unless they are parts of one group.
bool precedes(const Run& run, size_t process, const OperationText& first,
              const OperationText& then);

}  // namespace traintrace
