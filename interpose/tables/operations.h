// What NCCL operations leave behind in the tables: their count and rolling hash per communicator
// and per peer, and the newest of each communicator.  The wrappers' side is in state.h.
//
// NCCL wants one communicator to be used by one thread at a time, so its element has one writer
// and counts without atomic steps (a job that breaks the rule gets wrong counts, as it gets wrong
// results).  Cost of entry and return of a collective, stream included: 32 ns.
#pragma once

#include "interpose/tables/state.h"
#include "interpose/tables/tables.h"

namespace traintrace {

// What is asked of NCCL; a graph keeps it of what was captured, to repeat it at each launch.
struct OperationRequest {
  uint64_t count;
  uint32_t communicator;  // number
  uint32_t stack;
  int32_t reduction;
  int32_t peer;
  uint16_t call;
  uint8_t data_type;
};
void replay_operation(const OperationRequest& captured, uint32_t stream, uint64_t entered_ticks,
                      uint64_t ticks) noexcept;

// ncclCommGetAsyncError said that nothing is under way: what a non-blocking communicator was given
// before is on its streams by now.
void operations_settled(uint32_t communicator, uint64_t ticks) noexcept;

// At entry of an abort: marks what has finished by now, since afterwards completion means nothing.
void freeze_operations(uint32_t communicator) noexcept;
// Its element is about to go to another one: nothing of it is left in the tables.
void forget_operations(uint32_t communicator) noexcept;

void operations_start() noexcept;
void operations_drop() noexcept;

}  // namespace traintrace
