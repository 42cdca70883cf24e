// The algorithms: rings in rank order, and a binary tree for small all-reduces.
#include <algorithm>
#include <cstring>
#include <optional>

#include "nccl/corruption.h"
#include "nccl/kernel.h"
#include "nccl/reduce.h"

namespace simgpu::nccl {
namespace {

void copy_bytes(void* into, const void* from, size_t bytes) {
  if (bytes > 0 && into != from) {
    memmove(into, from, bytes);
  }
}

// The steps that rings are made of, on ranges of elements.  All return false when stopped.
class Ring {
 public:
  Ring(const KernelRun& run, Part& part, const Fifo& in, const Fifo& out, uint64_t chunk_count)
      : part_(part), in_(run, part, in), out_(run, part, out, chunk_count) {}

  bool send(const std::byte* own, size_t count) {
    std::byte* slot = out_.slot();
    if (!slot) {
      return false;
    }
    contribute(part_.operation.reduction, type(), slot, own, count);
    out_.publish(bytes(count));
    return true;
  }
  bool receive(std::byte* into, size_t count) {
    if (!in_.next(bytes(count))) {
      return false;
    }
    copy_bytes(into, in_.data(), in_.bytes());
    in_.pop();
    return true;
  }
  bool receive_send(std::byte* into, size_t count) {
    std::byte* slot = in_.next(bytes(count)) ? out_.slot() : nullptr;
    if (!slot) {
      return false;
    }
    copy_bytes(into, in_.data(), in_.bytes());
    in_.pop();
    copy_bytes(slot, into, bytes(count));
    out_.publish(bytes(count));
    return true;
  }
  bool reduce_send(const std::byte* own, size_t count) {
    std::byte* slot = in_.next(bytes(count)) ? out_.slot() : nullptr;
    if (!slot) {
      return false;
    }
    reduce_into(slot, own, count);
    out_.publish(bytes(count));
    return true;
  }
  bool reduce(const std::byte* own, std::byte* into, size_t count) {
    if (!in_.next(bytes(count))) {
      return false;
    }
    reduce_into(into, own, count);
    conclude(part_.operation.reduction, type(), into, count);
    return true;
  }
  bool reduce_copy_send(const std::byte* own, std::byte* into, size_t count) {
    if (!reduce(own, into, count)) {
      return false;
    }
    std::byte* slot = out_.slot();
    if (!slot) {
      return false;
    }
    copy_bytes(slot, into, bytes(count));
    out_.publish(bytes(count));
    return true;
  }
  bool drain() { return in_.drain(); }

 private:
  ncclDataType_t type() const { return part_.operation.type; }
  size_t bytes(size_t count) const { return count * part_.element_bytes; }
  void reduce_into(std::byte* into, const std::byte* own, size_t count) {
    contribute(part_.operation.reduction, type(), into, own, count);
    combine(part_.operation.reduction, type(), into, in_.data(), in_.bytes() / part_.element_bytes);
    in_.pop();
  }

  Part& part_;
  Inlet in_;
  Outlet out_;
};

// One collective of one rank.
class Collective {
 public:
  Collective(const KernelRun& run, const Operation& operation, uint64_t sequence)
      : run_(run),
        comm_(run.comm()),
        operation_(operation),
        part_(comm_, operation, sequence),
        rank_(comm_.rank),
        ranks_(comm_.rank_count),
        per_slot_(comm_.segment->header().slot_bytes / part_.element_bytes),
        send_(static_cast<const std::byte*>(operation.send)),
        receive_(static_cast<std::byte*>(operation.receive)) {}

  bool run() {
    if (ranks_ == 1) {
      alone();
      return true;
    }
    const bool finished = operation_.algorithm == Algorithm::kTree ? tree_all_reduce() : ring();
    return finished && wait_for_the_rest();
  }

 private:
  const std::byte* own(size_t element) const { return send_ + element * part_.element_bytes; }
  std::byte* into(size_t element) const { return receive_ + element * part_.element_bytes; }
  size_t rounds(size_t per_round) const { return (operation_.count + per_round - 1) / per_round; }

  void alone() {
    contribute(operation_.reduction, operation_.type, receive_, send_, operation_.count);
    conclude(operation_.reduction, operation_.type, receive_, operation_.count);
  }

  // Somebody has less data than this rank expects: it never comes.
  bool wait_for_the_rest() {
    const bool complete = part_.header.least_bytes >= part_.header.total_bytes;
    return complete || mismatch_mode() == MismatchMode::kCorrupt || run_.hang();
  }

  bool ring() {
    Fifo in;
    Fifo out;
    if (!comm_.segment->fifo(Lane::kRing, comm_.previous(), rank_, in) ||
        !comm_.segment->fifo(Lane::kRing, rank_, comm_.next(), out)) {
      return run_.fail(ncclSystemError);
    }
    const uint64_t steps = static_cast<uint64_t>(ranks_ - 1);
    switch (operation_.function) {
      case Function::kAllReduce: {
        const size_t loops = rounds(per_slot_ * static_cast<size_t>(ranks_));
        Ring ring(run_, part_, in, out, 2 * steps * loops);
        return ring_all_reduce(ring) && ring.drain();
      }
      case Function::kReduceScatter: {
        Ring ring(run_, part_, in, out, steps * rounds(per_slot_));
        return ring_reduce_scatter(ring) && ring.drain();
      }
      case Function::kAllGather: {
        Ring ring(run_, part_, in, out, steps * rounds(per_slot_));
        return ring_all_gather(ring) && ring.drain();
      }
      default: {
        Ring ring(run_, part_, in, out, rounds(per_slot_));
        const bool broadcast = operation_.function == Function::kBroadcast;
        return (broadcast ? chain_broadcast(ring) : chain_reduce(ring)) && ring.drain();
      }
    }
  }

  // Calls step(block) for the blocks rank-1, rank-2, .. as they come round the ring.
  template <class Step>
  bool go_round(int first, int last, Step step) {
    for (int j = first; j <= last; ++j) {
      if (!step(static_cast<size_t>((rank_ + ranks_ - j) % ranks_))) {
        return false;
      }
    }
    return true;
  }

  // Reduce-scatter, then all-gather, of `ranks` blocks at a time.
  bool ring_all_reduce(Ring& ring) {
    const size_t ranks = static_cast<size_t>(ranks_);
    for (size_t base = 0; base < operation_.count; base += ranks * per_slot_) {
      const size_t left = operation_.count - base;
      const size_t block = std::min(per_slot_, (left + ranks - 1) / ranks);
      const auto start = [&](size_t index) { return base + std::min(left, index * block); };
      const auto size = [&](size_t index) { return start(index + 1) - start(index); };
      const bool done =
          go_round(1, 1, [&](size_t i) { return ring.send(own(start(i)), size(i)); }) &&
          go_round(2, ranks_ - 1,
                   [&](size_t i) { return ring.reduce_send(own(start(i)), size(i)); }) &&
          go_round(ranks_, ranks_,
                   [&](size_t i) {
                     return ring.reduce_copy_send(own(start(i)), into(start(i)), size(i));
                   }) &&
          go_round(1, ranks_ - 2,
                   [&](size_t i) { return ring.receive_send(into(start(i)), size(i)); }) &&
          go_round(ranks_ - 1, ranks_ - 1,
                   [&](size_t i) { return ring.receive(into(start(i)), size(i)); });
      if (!done) {
        return false;
      }
    }
    return true;
  }

  bool ring_reduce_scatter(Ring& ring) {
    const size_t count = operation_.count;
    for (size_t base = 0; base < count; base += per_slot_) {
      const size_t size = std::min(per_slot_, count - base);
      const bool done =
          go_round(1, 1, [&](size_t i) { return ring.send(own(i * count + base), size); }) &&
          go_round(2, ranks_ - 1,
                   [&](size_t i) { return ring.reduce_send(own(i * count + base), size); }) &&
          go_round(ranks_, ranks_,
                   [&](size_t i) { return ring.reduce(own(i * count + base), into(base), size); });
      if (!done) {
        return false;
      }
    }
    return true;
  }

  bool ring_all_gather(Ring& ring) {
    const size_t count = operation_.count;
    for (size_t base = 0; base < count; base += per_slot_) {
      const size_t size = std::min(per_slot_, count - base);
      copy_bytes(into(static_cast<size_t>(rank_) * count + base), own(base),
                 size * part_.element_bytes);
      const bool done =
          ring.send(into(static_cast<size_t>(rank_) * count + base), size) &&
          go_round(1, ranks_ - 2,
                   [&](size_t i) { return ring.receive_send(into(i * count + base), size); }) &&
          go_round(ranks_ - 1, ranks_ - 1,
                   [&](size_t i) { return ring.receive(into(i * count + base), size); });
      if (!done) {
        return false;
      }
    }
    return true;
  }

  // root -> root+1 -> .. -> root-1
  bool chain_broadcast(Ring& ring) {
    for (size_t base = 0; base < operation_.count; base += per_slot_) {
      const size_t size = std::min(per_slot_, operation_.count - base);
      bool done = false;
      if (rank_ == operation_.root) {
        copy_bytes(into(base), own(base), size * part_.element_bytes);
        done = ring.send(own(base), size);
      } else if (comm_.next() == operation_.root) {
        done = ring.receive(into(base), size);
      } else {
        done = ring.receive_send(into(base), size);
      }
      if (!done) {
        return false;
      }
    }
    return true;
  }

  // root+1 -> root+2 -> .. -> root
  bool chain_reduce(Ring& ring) {
    for (size_t base = 0; base < operation_.count; base += per_slot_) {
      const size_t size = std::min(per_slot_, operation_.count - base);
      bool done = false;
      if (rank_ == operation_.root) {
        done = ring.reduce(own(base), into(base), size);
      } else if (comm_.previous() == operation_.root) {
        done = ring.send(own(base), size);
      } else {
        done = ring.reduce_send(own(base), size);
      }
      if (!done) {
        return false;
      }
    }
    return true;
  }

  bool tree_all_reduce();
  bool tree_pass(std::vector<Inlet>& from_children, std::vector<Outlet>& to_children,
                 std::optional<Inlet>& from_parent, std::optional<Outlet>& to_parent);

  const KernelRun& run_;
  Communicator& comm_;
  const Operation& operation_;
  Part part_;
  const int rank_;
  const int ranks_;
  const size_t per_slot_;
  const std::byte* const send_;
  std::byte* const receive_;
};

bool put(Outlet& outlet, const std::byte* data, size_t bytes) {
  std::byte* slot = outlet.slot();
  if (!slot) {
    return false;
  }
  copy_bytes(slot, data, bytes);
  outlet.publish(bytes);
  return true;
}

// Sums go up to rank 0, the result comes down.  The receive buffer holds what is summed so far.
bool Collective::tree_all_reduce() {
  Segment& segment = *comm_.segment;
  const uint64_t chunks = rounds(per_slot_);
  std::vector<Inlet> from_children;
  std::vector<Outlet> to_children;
  std::optional<Inlet> from_parent;
  std::optional<Outlet> to_parent;
  bool mapped = true;
  for (int child = 2 * rank_ + 1; child <= 2 * rank_ + 2 && child < ranks_; ++child) {
    Fifo up;
    Fifo down;
    mapped &= segment.fifo(Lane::kTree, child, rank_, up) &&
              segment.fifo(Lane::kTree, rank_, child, down);
    from_children.emplace_back(run_, part_, up);
    to_children.emplace_back(run_, part_, down, chunks);
  }
  if (rank_ > 0) {
    const int parent = (rank_ - 1) / 2;
    Fifo up;
    Fifo down;
    mapped &= segment.fifo(Lane::kTree, rank_, parent, up) &&
              segment.fifo(Lane::kTree, parent, rank_, down);
    from_parent.emplace(run_, part_, down);
    to_parent.emplace(run_, part_, up, chunks);
  }
  if (!mapped) {
    return run_.fail(ncclSystemError);
  }
  return tree_pass(from_children, to_children, from_parent, to_parent);
}

bool Collective::tree_pass(std::vector<Inlet>& from_children, std::vector<Outlet>& to_children,
                           std::optional<Inlet>& from_parent, std::optional<Outlet>& to_parent) {
  for (size_t base = 0; base < operation_.count; base += per_slot_) {
    const size_t size = std::min(per_slot_, operation_.count - base);
    const size_t bytes = size * part_.element_bytes;
    contribute(operation_.reduction, operation_.type, into(base), own(base), size);
    for (Inlet& inlet : from_children) {
      if (!inlet.next(bytes)) {
        return false;
      }
      combine(operation_.reduction, operation_.type, into(base), inlet.data(),
              inlet.bytes() / part_.element_bytes);
      inlet.pop();
    }
    if (to_parent) {
      if (!put(*to_parent, into(base), bytes) || !from_parent->next(bytes)) {
        return false;
      }
      copy_bytes(into(base), from_parent->data(), from_parent->bytes());
      from_parent->pop();
    } else {
      conclude(operation_.reduction, operation_.type, into(base), size);
    }
    for (Outlet& outlet : to_children) {
      if (!put(outlet, into(base), bytes)) {
        return false;
      }
    }
  }
  for (Inlet& inlet : from_children) {
    if (!inlet.drain()) {
      return false;
    }
  }
  return !from_parent || from_parent->drain();
}

}  // namespace

bool run_collective(const KernelRun& run, const Operation& operation) {
  Corrupted corrupted(run.comm(), operation);
  const bool finished =
      Collective(run, corrupted.operation(), ++run.comm().collective_sequence).run();
  corrupted.after();
  return finished;
}

}  // namespace simgpu::nccl
