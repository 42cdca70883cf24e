// Whether there are marks, decided once: by the time the first communicator is about to be made,
// since pinning memory later would wait for what runs.  The only place where the tracer calls CUDA.
#pragma once

#include <cstdint>

#include "interpose/thread.h"

namespace traintrace {

enum class MarksOccasion : uint8_t {
  kUniqueId,        // communicators are to come, and so may the context
  kCommunicator,    // now or never
  kSeveralDevices,  // of this process, in one call
};
void marks_prepare(ThreadState& thread, MarksOccasion occasion) noexcept;

}  // namespace traintrace
