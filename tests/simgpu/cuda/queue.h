// A queue of device work: what a stream is.  Operations run in order, on a thread of the queue's
// own that starts with the first operation.
//
// Time is virtual but anchored: an operation starts when its predecessor, its dependencies and its
// own issue are past, and ends a modelled (or, for work that waits for the outside, real) time
// later.  The thread publishes the end only when the real clock has got there, so that a
// synchronising host really waits, while the timestamps are free of scheduling noise.
#pragma once
#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "simgpu_trace.h"

namespace simgpu {

class Queue;
class Work;

// CLOCK_MONOTONIC.
int64_t now_ns();

// A point in a queue: operation number `sequence` and all before it.
struct Ticket {
  std::shared_ptr<Queue> queue;  // null: nothing to wait for
  uint64_t sequence = 0;

  bool done() const;
  void wait() const;
};

// The state that all queues of one context share.
struct Fault {
  std::atomic<int> error{0};      // first asynchronous CUresult; sticky
  std::atomic<int> cancelled{0};  // the context is being torn down: skip what is left
};

// Where work came from and where it runs, for who traces it.
struct Origin {
  uint32_t correlation = 0;  // of the call
  uint32_t device = 0;
  uint32_t context = 0;
  uint32_t stream = 0;
};

// What a piece of work is told while it runs, and what it answers.
struct Run {
  int64_t start_ns;  // virtual begin
  int64_t end_ns;    // set by the work: virtual end, >= start_ns; preset to start_ns
  const Fault& fault;
  Origin origin = {};

  // For work whose duration is real (host functions, waits, collectives): ends now.
  void ends_now();
};

// Blocks until the real clock has got to `time_ns`, or the context is cancelled.
void wait_until(int64_t time_ns, const Fault& fault);

// Something a device does.  Immutable once submitted, so that a graph and all its launches share
// it.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;
  virtual CUgraphNodeType type() const = 0;
  // Called on a queue's thread.  An error becomes the context's sticky error.
  virtual CUresult run(Run& run) const = 0;
  // For who traces; kind 0: nothing that is traced.
  virtual void describe(simgpuActivity& activity) const { activity.kind = SIMGPU_NO_ACTIVITY; }
};

struct Operation {
  std::shared_ptr<const Work> work;  // null: only the dependencies
  std::vector<Ticket> dependencies;
  int64_t issue_ns = 0;  // filled by push
  int async_failure = 0;
  Origin origin = {};
};

class Queue : public std::enable_shared_from_this<Queue> {
 public:
  explicit Queue(std::shared_ptr<Fault> fault) : fault_(std::move(fault)) {}

  // Appends and returns the operation's number, counted from 1.  `order(dependencies)` runs under
  // the queue's lock before the number exists, so two queues that look at each other cannot form a
  // cycle.  Blocks while SIMGPU_QUEUE_DEPTH operations are pending, unless `exempt`.
  template <class Order>
  uint64_t push(Operation operation, Order order, bool exempt = false);
  uint64_t push(Operation operation) {
    return push(std::move(operation), [](std::vector<Ticket>&) {});
  }

  uint64_t issued() const { return issued_.load(std::memory_order_acquire); }
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  bool idle() const { return completed() == issued(); }
  // Virtual end of the last completed operation.
  int64_t end_ns() const { return end_ns_.load(std::memory_order_acquire); }
  Ticket last();  // everything issued so far
  void wait(uint64_t sequence);
  // Lets the thread end once it is drained.  Nothing may be pushed afterwards.
  void close();

 private:
  void wait_locked(std::unique_lock<std::mutex>& lock, uint64_t sequence);
  void wait_for_room(std::unique_lock<std::mutex>& lock);
  void append(Operation&& operation);  // needs the lock
  void work_loop();
  void execute(Operation& operation);
  void publish();

  std::shared_ptr<Fault> fault_;
  std::mutex mutex_;
  std::condition_variable work_cv_;
  std::condition_variable done_cv_;
  std::vector<Operation> pending_;
  bool running_ = false;  // the thread exists
  bool idle_ = false;     // the thread waits for work
  bool closed_ = false;
  std::atomic<uint64_t> issued_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> wake_at_{UINT64_MAX};  // the lowest number somebody waits for
  std::atomic<int64_t> end_ns_{0};
};

template <class Order>
uint64_t Queue::push(Operation operation, Order order, bool exempt) {
  std::unique_lock lock(mutex_);
  if (!exempt) {
    wait_for_room(lock);
  }
  order(operation.dependencies);
  append(std::move(operation));
  return issued();
}

}  // namespace simgpu
