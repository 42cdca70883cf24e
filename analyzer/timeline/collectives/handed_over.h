// Threads that take turns: autograd's launches the backward pass, the main one all else.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// While a thread of `launching` left the GPU to another thread and that one was in a call that
// waits for it: the job was blocked, though the thread itself was not.  A thread leaves the GPU to
// another if it makes no call until the other has waited and then launched a kernel; a thread that
// only copies, or only waits, takes no turns.  By thread; empty for others than those.
std::vector<std::vector<Span>> blocked_elsewhere(const Timeline& timeline,
                                                 const std::vector<bool>& launching);

}  // namespace traintrace
