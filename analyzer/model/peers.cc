#include "analyzer/model/peers.h"

#include <algorithm>

#include "analyzer/model/groups.h"

namespace traintrace {

namespace {

// Called inside a group that is still being filled.
uint64_t pending_count(const Run& run, const Member& member, bool receive, int peer) {
  const CommunicatorText& text = text_of(run, member);
  const auto open = open_group(run.processes[member.process], text);
  return !open ? 0
               : static_cast<uint64_t>(std::count_if(
                     text.recent.begin(), text.recent.end(), [&](const OperationText& operation) {
                       return operation.index >= open->first->index && !operation.collective &&
                              operation.receive == receive && operation.peer == peer;
                     }));
}

}  // namespace

bool has_posted(const Run& run, const Member& peer, bool receive, int rank, uint64_t sequence) {
  for (const PeerText& text : run.processes[peer.process].peers) {
    if (text.communicator == peer.element + 1 && text.receive == receive && text.peer == rank) {
      return text.operations >= sequence &&
             text.operations - pending_count(run, peer, receive, rank) >= sequence;
    }
  }
  return false;
}

bool is_unanswered(const Run& run, const Communicator& communicator, const Member& member,
                   const OperationText& operation) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  if (operation.collective || (operation.flags & kNot) != 0 || operation.sequence == 0 ||
      member.local_rank < 0 || operation.peer == member.local_rank) {
    return false;
  }
  const auto open = open_group(run.processes[member.process], text_of(run, member));
  if (open && operation.index >= open->first->index) {
    return false;
  }
  const Member* peer = member_at(communicator, operation.peer);
  return peer != nullptr &&
         !has_posted(run, *peer, !operation.receive, member.local_rank, operation.sequence);
}

}  // namespace traintrace
