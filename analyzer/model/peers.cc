#include "analyzer/model/peers.h"

namespace traintrace {

bool has_posted(const Run& run, const Member& peer, bool receive, int rank, uint64_t sequence) {
  for (const PeerText& text : run.processes[peer.process].peers) {
    if (text.communicator == peer.element + 1 && text.receive == receive && text.peer == rank) {
      return text.operations >= sequence;
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
  const Member* peer = member_at(communicator, operation.peer);
  return peer != nullptr &&
         !has_posted(run, *peer, !operation.receive, member.local_rank, operation.sequence);
}

}  // namespace traintrace
