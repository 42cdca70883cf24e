#include "cuda/queue.h"

#include "cuda/tracing.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace simgpu {
namespace {

// A GPU channel holds about a thousand launches before the host blocks (1022 seen on hardware).
uint64_t queue_depth() {
  static const uint64_t depth = [] {
    const char* text = getenv("SIMGPU_QUEUE_DEPTH");
    const uint64_t value = text ? strtoull(text, nullptr, 10) : 0;
    return value ? value : 1024;
  }();
  return depth;
}

// Below this the clock is polled: a timed sleep costs about as much.
constexpr int64_t kPollBelowNs = 30'000;

}  // namespace

void wait_until(int64_t time_ns, const Fault& fault) {
  for (int64_t now = now_ns(); now < time_ns; now = now_ns()) {
    if (fault.cancelled.load(std::memory_order_relaxed)) {
      return;
    }
    if (time_ns - now > kPollBelowNs) {
      // Woken every 20 ms to look at `cancelled`.
      const int64_t until = std::min(time_ns, now + 20'000'000);
      const timespec deadline = {until / 1'000'000'000, until % 1'000'000'000};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
    }
  }
}

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

bool Ticket::done() const {
  return !queue || queue->completed() >= sequence;
}

void Ticket::wait() const {
  if (queue) {
    queue->wait(sequence);
  }
}

void Run::ends_now() {
  end_ns = std::max(start_ns, now_ns());
}

Ticket Queue::last() {
  return {shared_from_this(), issued()};
}

void Queue::wait(uint64_t sequence) {
  if (completed() < sequence) {
    std::unique_lock lock(mutex_);
    wait_locked(lock, sequence);
  }
}

// A waiter writes wake_at_ before it looks at completed_; publish() looks at wake_at_ after it has
// written completed_.  All four in one total order, so one of the two sees the other.
void Queue::wait_locked(std::unique_lock<std::mutex>& lock, uint64_t sequence) {
  while (true) {
    wake_at_.store(std::min(wake_at_.load(), sequence));
    if (completed_.load() >= sequence) {
      return;
    }
    done_cv_.wait(lock);
  }
}

// Waits for a sixteenth of the queue to drain, so that a short kernel does not cost a wake-up each.
void Queue::wait_for_room(std::unique_lock<std::mutex>& lock) {
  const uint64_t depth = queue_depth();
  while (issued() - completed() >= depth) {
    wait_locked(lock, issued() - depth + 1 + depth / 16);
  }
}

void Queue::append(Operation&& operation) {
  operation.issue_ns = now_ns();
  pending_.push_back(std::move(operation));
  issued_.store(issued() + 1, std::memory_order_release);
  if (!running_) {
    running_ = true;
    sigset_t all, before;  // the application's signals are for the application's threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([self = shared_from_this()] { self->work_loop(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  } else if (idle_) {
    idle_ = false;
    work_cv_.notify_one();
  }
}

void Queue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  work_cv_.notify_one();
}

void Queue::work_loop() {
  pthread_setname_np(pthread_self(), "simgpu-stream");
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  std::vector<Operation> batch;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      while (pending_.empty() && !closed_) {
        idle_ = true;
        work_cv_.wait(lock);
      }
      idle_ = false;
      if (pending_.empty()) {
        return;
      }
      batch.swap(pending_);
    }
    for (Operation& operation : batch) {
      execute(operation);
      operation = {};
      publish();
    }
    batch.clear();
  }
}

void Queue::execute(Operation& operation) {
  int64_t start_ns = std::max(end_ns(), operation.issue_ns);
  for (const Ticket& dependency : operation.dependencies) {
    dependency.wait();
    start_ns = std::max(start_ns, dependency.queue ? dependency.queue->end_ns() : 0);
  }
  Run run = {start_ns, start_ns, *fault_, operation.origin};
  if (operation.work && !fault_->error.load() && !fault_->cancelled.load()) {
    const int result = operation.async_failure ? operation.async_failure : operation.work->run(run);
    int none = 0;
    if (result != CUDA_SUCCESS) {
      fault_->error.compare_exchange_strong(none, result);
    }
    wait_until(run.end_ns, *fault_);
    trace_work(*operation.work, run);
  }
  end_ns_.store(run.end_ns, std::memory_order_release);
}

void Queue::publish() {
  const uint64_t done = completed_.load(std::memory_order_relaxed) + 1;
  completed_.store(done);
  if (done >= wake_at_.load()) {
    const std::lock_guard lock(mutex_);
    wake_at_.store(UINT64_MAX);  // who must wait on says so again
    done_cv_.notify_all();
  }
}

}  // namespace simgpu
