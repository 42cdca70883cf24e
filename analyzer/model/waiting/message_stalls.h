// Messages of which both sides are issued and that do not end.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/waiting/stalls.h"

namespace traintrace {

// Of one communicator, to what is there: one for those that exchange messages with each other, the
// oldest of each that is not known to be over.  None where one of them waits for what is not
// issued, or lies behind other messages of its counterpart.  And one for each message that a rank
// waits for (Run::waits) and whose other side cannot begin, for what else lies on its stream.
void add_message_stalls(const Run& run, size_t communicator, HostWait wait,
                        std::vector<Stall>& stalls);

}  // namespace traintrace
