// What streams of a process were told to wait for by events: frameworks give each communicator a
// stream, and order them in this way.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/model/divergence/narrow_divergences.h"
#include "analyzer/model/run.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

// From its event records, as far as they are kept: what is lost only hides an order.  Nobody will
// ask about operations entered before `since`.
StreamOrder stream_order_of(const ProcessTrace& trace, TimeNs since);

// Fills Run::stream_orders for processes that have operations on several streams which are not
// known to be over, or of one and a function of the job's that runs on another.  Whether there are
// any.
bool find_stream_orders(Run& run, const ReadEvents& read_events);

// Null: it is over, will not run, or nobody knows where on its stream it lies.
const OperationText* pending(const Run& run, const Member& member, const OperationText* operation);

// What was put on a stream at a time.
struct PutOn {
  uint32_t stream = 0;  // index in ProcessTrace::streams + 1; 0: not known
  TimeNs time = 0;
};
// By events, `then`, on another stream of the process, begins when that is over.
bool is_told_behind(const Run& run, size_t process, const PutOn& first, const OperationText& then);

}  // namespace traintrace
