// The ring of checks under way: reserved and launched by the job's threads (checks.cc), recorded
// and given back by the tracer's own (checks_record.cc).
#pragma once

#include "interpose/payload/checks.h"

namespace traintrace {

enum class Way : uint8_t { kNone, kKernel, kCopy };

// What is under way, by the first of its cells.
struct Check {
  uint64_t ready;     // its ticket + 1 once all is filled in
  uint64_t sequence;  // of the operation, as the rest
  uint64_t count;     // elements of one part
  uint32_t communicator;
  uint32_t stack;
  int32_t peer;
  int16_t reduction;
  uint16_t parts;
  uint16_t cells;  // of the ring, to the next check
  uint16_t blocks;
  uint8_t operation;  // CheckedOperation
  uint8_t side;
  uint8_t data_type;
  uint8_t device;
  Way way;
  bool recorded;  // the recording thread's
};

struct Checks {
  bool on;
  CheckDriver driver;
  format::PayloadCell* cells;
  format::PayloadCell* device_cells;
  int32_t device;
  Check* ring;
  CheckedBuffers* buffers;  // by operation
  uint64_t head;            // cells reserved so far
  uint64_t tail;            // cells given back so far
  uint32_t recording;
};
extern constinit Checks g_checks;

}  // namespace traintrace
