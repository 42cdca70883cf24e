// What is known of a process's life: facts, no opinions.  Time without a heartbeat is none of them:
// SIGSTOP, `docker pause` and a disk that hangs stop the thread that writes it as well as a death.
#pragma once

#include "analyzer/reader/process_trace.h"

namespace traintrace {

// How a process ended, as far as can be told from here.
enum class Ending : uint8_t {
  kUnknown,  // nothing says that it ended, and nothing that it has not: silent since its last sign
  kRunning,  // it is there right now
  kGone,     // it is not, and left no exit record: a signal, most likely
  kExited,   // exit record
};

// Who says that it ended.
enum class EndEvidence : uint8_t {
  kNone,
  kExitRecord,  // itself
  kNoted,       // somebody beside it, who noted when
  kKernel,      // the kernel, now: it has no such process any more
};

struct Life {
  Ending ending = Ending::kUnknown;
  EndEvidence evidence = EndEvidence::kNone;
  TimeNs last_seen = 0;  // last sign of life: the last-alive time or a later record
  // When it ended; 0: that is not known.  With kKernel it was at `last_seen` or later.
  TimeNs ended = 0;
  Halt halt = Halt::kNot;  // while it is there
};

Life life_of(const ProcessTrace& trace);

}  // namespace traintrace
