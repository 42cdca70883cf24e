// What the job's own functions on streams hold up.
#pragma once

#include "analyzer/model/run.h"
#include "analyzer/model/waiting/stalls.h"

namespace traintrace {

// The function that holds up the operation: entered, and not left, and on its stream before it or
// on another where its stream waits for what lies behind the function, by an event.
const HostFunctionText* function_before(const Run& run, size_t process,
                                        const OperationText& operation);

// All of its members are in such functions, or were until less than --hang-after ago: they work
// alike, and nobody has waited for another.
bool is_at_work(const Run& run, const Stall& stall);

}  // namespace traintrace
