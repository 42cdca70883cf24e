// All sends and receives of one group, progressing at the same time.
#include <algorithm>
#include <cstring>
#include <list>

#include "nccl/kernel.h"

namespace simgpu::nccl {
namespace {

class Transfer {
 public:
  Transfer(const KernelRun& run, const Operation& operation, const Fifo& fifo, uint64_t sequence)
      : run_(run),
        part_(run.comm(), operation, sequence),
        fifo_(fifo),
        sends_(operation.function == Function::kSend),
        own_(static_cast<const std::byte*>(operation.send)),
        into_(static_cast<std::byte*>(operation.receive)) {}

  int peer() const { return part_.operation.root; }
  bool sends() const { return sends_; }
  bool finished() const { return finished_; }

  // Moves what can be moved without waiting; true if anything was.
  bool advance() { return !finished_ && !stuck_ && (sends_ ? advance_send() : advance_receive()); }

 private:
  uint64_t total() const { return part_.header.total_bytes; }

  bool advance_send() {
    bool moved = false;
    for (std::byte* slot; done_ < total() && (slot = fifo_.next_free()); moved = true) {
      ChunkHeader header = part_.header;
      header.bytes = std::min<uint64_t>(fifo_.slot_bytes(), total() - done_);
      header.chunk_count = (total() + fifo_.slot_bytes() - 1) / fifo_.slot_bytes();
      memcpy(slot, own_ + done_, header.bytes);
      done_ += header.bytes;
      fifo_.publish(header);
    }
    finished_ = done_ == total();
    return moved;
  }

  bool advance_receive() {
    bool moved = false;
    for (const ChunkHeader* front; !finished_ && !stuck_ && (front = fifo_.front()); moved = true) {
      if (front->sequence < part_.header.sequence) {
        fifo_.pop();  // more than an earlier receive had asked for
      } else if (front->sequence > part_.header.sequence) {
        missing();
      } else {
        take(*front);
      }
    }
    return moved;
  }

  void take(const ChunkHeader& front) {
    const Mismatch mismatch = part_.compare(front);
    const bool last = ++chunks_ == front.chunk_count;
    const bool short_of_data = front.total_bytes < total();
    answer(mismatch);
    if (stuck_) {
      return;
    }
    const size_t bytes = std::min<uint64_t>(front.bytes, total() - done_);
    memcpy(into_ + done_, fifo_.front_data(), bytes);
    done_ += bytes;
    fifo_.pop();
    if (last && short_of_data) {
      missing();
    } else {
      finished_ = done_ == total();
    }
  }

  // What is still expected never comes.
  void missing() {
    finished_ = mismatch_mode() == MismatchMode::kCorrupt;
    stuck_ = !finished_;
    if (mismatch_mode() == MismatchMode::kError) {
      set_state(run_.comm(), ncclInternalError);
    }
  }

  void answer(Mismatch mismatch) {
    const Answer answer = answer_to(mismatch);
    stuck_ = answer != Answer::kTake;
    if (answer == Answer::kFail) {
      set_state(run_.comm(), ncclInternalError);
    }
  }

  const KernelRun& run_;
  Part part_;
  const Fifo fifo_;
  const bool sends_;
  const std::byte* const own_;
  std::byte* const into_;
  uint64_t done_ = 0;
  uint64_t chunks_ = 0;
  bool finished_ = false;
  bool stuck_ = false;  // waits for what cannot come
};

// A rank's sends to itself meet its receives from itself, in order.
void copy_to_self(const std::vector<Operation>& transfers, int rank) {
  std::vector<const Operation*> sends;
  size_t taken = 0;
  for (const Operation& operation : transfers) {
    if (operation.root == rank && operation.function == Function::kSend) {
      sends.push_back(&operation);
    }
  }
  for (const Operation& operation : transfers) {
    if (operation.root != rank || operation.function != Function::kRecv || taken == sends.size()) {
      continue;
    }
    const Operation& send = *sends[taken++];
    const size_t bytes =
        std::min(send.count * type_bytes(send.type), operation.count * type_bytes(operation.type));
    if (operation.receive != send.send) {
      memmove(operation.receive, send.send, bytes);
    }
  }
}

// Of several transfers over one queue only the oldest may move.
bool advance_all(std::list<Transfer>& transfers) {
  bool moved = false;
  for (auto transfer = transfers.begin(); transfer != transfers.end(); ++transfer) {
    const bool oldest = std::none_of(transfers.begin(), transfer, [&](const Transfer& other) {
      return other.peer() == transfer->peer() && other.sends() == transfer->sends();
    });
    moved |= oldest && transfer->advance();
  }
  std::erase_if(transfers, [](const Transfer& transfer) { return transfer.finished(); });
  return moved;
}

}  // namespace

bool run_transfers(const KernelRun& run, const std::vector<Operation>& operations) {
  Communicator& comm = run.comm();
  copy_to_self(operations, comm.rank);
  std::list<Transfer> transfers;
  for (const Operation& operation : operations) {
    const int peer = operation.root;
    if (peer == comm.rank) {
      continue;
    }
    const bool sends = operation.function == Function::kSend;
    Fifo fifo;
    if (!comm.segment->fifo(Lane::kPair, sends ? comm.rank : peer, sends ? peer : comm.rank,
                            fifo)) {
      return run.fail(ncclSystemError);
    }
    const auto index = static_cast<size_t>(peer);
    const uint64_t sequence = sends ? ++comm.send_sequence[index] : ++comm.receive_sequence[index];
    transfers.emplace_back(run, operation, fifo, sequence);
  }
  return run.wait([&] {
    while (advance_all(transfers)) {
    }
    return transfers.empty();
  });
}

}  // namespace simgpu::nccl
