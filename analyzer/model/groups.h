// Which operations were called in one group, between ncclGroupStart and ncclGroupEnd.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/run.h"

namespace traintrace {

// Those of that communicator that are kept, in the order of the calls; of a call outside a group
// it alone.
std::vector<const OperationText*> group_of(const CommunicatorText& communicator,
                                           const OperationText& operation);

// Both are parts of one group, which begins as one; where groups are not numbered: they may be.
bool may_be_one_group(const OperationText& a, const OperationText& b);

// Each rank sends to most of the others, and receives from them: an all-to-all made of sends and
// receives.
bool is_exchange(const Communicator& communicator, const CommunicatorText& text,
                 const OperationText& operation);

// An operation that was called inside a group that is still open waits for its end.
struct OpenGroup {
  const OperationText* first = nullptr;  // on that communicator
  uint32_t stack = 0;                    // where the group was opened
};
std::optional<OpenGroup> open_group(const ProcessTrace& trace, const CommunicatorText& text);

// Its last operation on that communicator that led anywhere: what is called inside a group that is
// never closed does not.
TimeNs last_move(const ProcessTrace& trace, const CommunicatorText& text);

// What that root is waited for in and has called inside a group that it has not closed: where the
// waiting began, else elsewhere.
struct UnclosedCall {
  size_t wait = 0;  // in WaitGraph::waits
  OpenGroup group;
};
std::optional<UnclosedCall> unclosed_call(const Run& run, const Hang& hang, Rank root);

// The roots have called what the others wait in, inside a group that they have not closed.
bool is_group_unclosed(const Run& run, const Hang& hang);

// Adds members that grouped the same collectives differently.
void find_other_groups(const Run& run, std::vector<Divergence>& found);

}  // namespace traintrace
