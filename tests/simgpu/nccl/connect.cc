// Before the first use of an algorithm, or of a pair in one direction, the ranks concerned connect:
// each says that it is there and waits, in the caller's thread, until all the others have said so.
#include <strings.h>

#include <algorithm>
#include <cstdlib>

#include "nccl/debug.h"
#include "nccl/group.h"

namespace simgpu::nccl {
namespace {

// An all-reduce up to this size takes the tree; SIMGPU_NCCL_TREE_BYTES, or NCCL_ALGO=Ring|Tree.
constexpr size_t kDefaultTreeBytes = size_t{64} * 1024;

size_t read_tree_bytes() {
  if (const char* algorithm = getenv("NCCL_ALGO")) {
    if (strcasecmp(algorithm, "ring") == 0) {
      return 0;
    }
    if (strcasecmp(algorithm, "tree") == 0) {
      return SIZE_MAX;
    }
  }
  const char* text = getenv("SIMGPU_NCCL_TREE_BYTES");
  return text && *text ? strtoull(text, nullptr, 10) : kDefaultTreeBytes;
}

size_t bytes_of(const Operation& operation) {
  return operation.count * type_bytes(operation.type);
}

bool uses(const Pending& pending, Algorithm algorithm) {
  return pending.comm->rank_count > 1 &&
         std::any_of(pending.collectives.begin(), pending.collectives.end(),
                     [&](const Operation& operation) { return operation.algorithm == algorithm; });
}

// Calls visit(operation, from, to) for every transfer with another rank whose queue is not
// connected.
template <class Visit>
void for_each_missing_pair(const Pending& pending, Visit visit) {
  const Communicator& comm = *pending.comm;
  for (const Operation& operation : pending.transfers) {
    const auto peer = static_cast<size_t>(operation.root);
    const bool sends = operation.function == Function::kSend;
    const bool connected = sends ? comm.connections.send[peer] : comm.connections.receive[peer];
    if (operation.root != comm.rank && !connected) {
      visit(operation, sends ? comm.rank : operation.root, sends ? operation.root : comm.rank);
    }
  }
}

bool needs_ring(const Pending& pending) {
  return uses(pending, Algorithm::kRing) && !pending.comm->connections.ring;
}
bool needs_tree(const Pending& pending) {
  return uses(pending, Algorithm::kTree) && !pending.comm->connections.tree;
}

void ask(const Pending& pending) {
  Communicator& comm = *pending.comm;
  if (needs_ring(pending) || needs_tree(pending)) {
    if (needs_ring(pending)) {
      comm.cell().ring.store(1);
    }
    if (needs_tree(pending)) {
      comm.cell().tree.store(1);
    }
    comm.segment->ring_all();
  }
  for_each_missing_pair(pending, [&](const Operation& operation, int from, int to) {
    const bool sends = operation.function == Function::kSend;
    (sends ? comm.segment->wants_send(from, to) : comm.segment->wants_receive(from, to)).store(1);
    comm.segment->cell(operation.root).bell.ring();
  });
}

bool all_arrived(const Communicator& comm, std::atomic<uint32_t> RankCell::*flag) {
  for (int rank = 0; rank < comm.rank_count; ++rank) {
    if ((comm.segment->cell(rank).*flag).load() == 0) {
      return false;
    }
  }
  return true;
}

bool answered(const Pending& pending) {
  const Communicator& comm = *pending.comm;
  bool pairs = true;
  for_each_missing_pair(pending, [&](const Operation&, int from, int to) {
    pairs = pairs && comm.segment->wants_send(from, to).load() != 0 &&
            comm.segment->wants_receive(from, to).load() != 0;
  });
  return pairs && (!needs_ring(pending) || all_arrived(comm, &RankCell::ring)) &&
         (!needs_tree(pending) || all_arrived(comm, &RankCell::tree));
}

void remember(const Pending& pending) {
  if (needs_connection(pending)) {
    take_buffer(*pending.comm);
  }
  Connections& connections = pending.comm->connections;
  connections.ring |= uses(pending, Algorithm::kRing);
  connections.tree |= uses(pending, Algorithm::kTree);
  for (const Operation& operation : pending.transfers) {
    const bool sends = operation.function == Function::kSend;
    (sends ? connections.send : connections.receive)[static_cast<size_t>(operation.root)] = true;
  }
}

}  // namespace

ncclResult_t prepare(Pending& pending) {
  static const size_t tree_bytes = read_tree_bytes();
  for (Operation& operation : pending.collectives) {
    const bool tree =
        operation.function == Function::kAllReduce && bytes_of(operation) <= tree_bytes;
    operation.algorithm = tree ? Algorithm::kTree : Algorithm::kRing;
  }
  // NCCL too runs the collectives of a group largest first; equal ones here in the order of the
  // calls.
  std::stable_sort(
      pending.collectives.begin(), pending.collectives.end(),
      [](const Operation& a, const Operation& b) { return bytes_of(a) > bytes_of(b); });
  int unmatched = 0;
  for (const Operation& operation : pending.transfers) {
    if (operation.root == pending.comm->rank) {
      unmatched += operation.function == Function::kSend ? 1 : -1;
    }
  }
  if (unmatched != 0) {
    warn("Trying to send to self without a matching recv");
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

bool needs_connection(const Pending& pending) {
  bool needed = needs_ring(pending) || needs_tree(pending);
  for_each_missing_pair(pending, [&](const Operation&, int, int) { needed = true; });
  return needed;
}

ncclResult_t connect(std::vector<Pending>& work, const Stop& stop) {
  for (const Pending& pending : work) {
    ask(pending);
  }
  for (const Pending& pending : work) {
    if (!wait_on(
            pending.comm->cell().bell, [&] { return answered(pending); },
            [&] { return stop.load(); })) {
      warn("connecting was stopped: a communicator of the group was aborted");
      return ncclInternalError;
    }
    remember(pending);
  }
  return ncclSuccess;
}

}  // namespace simgpu::nccl
