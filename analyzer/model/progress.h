// How far a member of a communicator has come, by what its process recorded.
#pragma once

#include <cstdint>
#include <string_view>

#include "analyzer/model/run.h"

namespace traintrace {

// Known to be finished.  False says nothing.
bool finished(const ProcessTrace& trace, const OperationText& operation);

// What is known of an operation on the GPU; of one that its host has not launched: nothing.
// kEnqueued, kReached and kPending say for certain that it was not finished, kUnknown and kAborted
// say nothing.
GpuState gpu_state(const ProcessTrace& trace, const OperationText& operation);
inline bool certainly_unfinished(GpuState state) {
  return state == GpuState::kEnqueued || state == GpuState::kReached || state == GpuState::kPending;
}

// An operation in which everybody needs everybody, finished anywhere, was begun everywhere; and
// what lies before it on its stream is finished there.  Raises `completed` of streams whose own
// process never asked.  In a dump of Flight Recorder the collectives of one communicator lie on one
// stream: those before it are marked as finished.
void infer_progress(Run& run);

// Of the collectives in which everybody needs everybody, the last that is finished on some rank:
// all members entered it, though a copy that was taken before that does not say so.  0: none.  What
// is empty, or of a size that nobody recorded, may need nobody and does not count.
uint64_t last_finished(const Run& run, const Communicator& communicator);

// Ranks whose processes went on after their dumps of Flight Recorder were made: others have
// finished what needed them, and the dumps do not say that they had called it.  Where they are is
// not known.
Ranks that_went_on(const Run& run);

// The sequence of the last collective that was entered; one called inside a group that is still
// being filled has not been.
uint64_t sequence_reached(const ProcessTrace& trace, const CommunicatorText& communicator);

// Collective number `sequence`, or null if it is not among the recent ones.  Captured and failed
// ones do not run and are not found.
const OperationText* collective_at(const CommunicatorText& communicator, uint64_t sequence);

// Only a member of these that receives needs the others: small data is sent whether they are there
// or not.
enum class Direction : uint8_t { kAllToAll, kFromRoot, kToRoot };
Direction direction_of(std::string_view function);

// Bytes of one element of an ncclDataType_t; 0: not known.
uint64_t bytes_of_type(int data_type);

}  // namespace traintrace
