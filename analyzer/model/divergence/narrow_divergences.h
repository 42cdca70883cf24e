// Where the tables of the traces only say that ranks parted somewhere in a range, the event records
// of two of them may say where.
#pragma once

#include <functional>

#include "analyzer/model/run.h"

namespace traintrace {

// With the events of a process; null: they cannot be had.
using ReadEvents = std::function<const ProcessTrace*(const ProcessTrace& tables)>;

void narrow_divergences(Run& run, const ReadEvents& read_events);

}  // namespace traintrace
