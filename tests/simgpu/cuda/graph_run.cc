// What a launched graph does when its turn on the stream has come.
#include <algorithm>
#include <condition_variable>

#include "cuda/graph_exec.h"
#include "cuda/shared_event.h"
#include "cuda/tracing.h"

namespace simgpu {
namespace {

// The moment at which an event record node is reached, on its way from a lane to the queue that the
// event's ticket is in.
class Reached {
 public:
  void set(int64_t time_ns) {
    const std::lock_guard lock(mutex_);
    if (!reached_) {
      reached_ = true;
      time_ns_ = time_ns;
      changed_.notify_one();
    }
  }
  int64_t wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
    return time_ns_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  int64_t time_ns_ = 0;
};

// Completes an event when its node is reached.  Other work of the launch may go on, or be stuck.
class ReachedWork final : public Work {
 public:
  ReachedWork(std::shared_ptr<Reached> moment, std::shared_ptr<const Work> record)
      : moment_(std::move(moment)), record_(std::move(record)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }

  CUresult run(Run& run) const override {
    run.start_ns = std::max(run.start_ns, moment_->wait());
    run.end_ns = run.start_ns;
    return record_->run(run);
  }

 private:
  std::shared_ptr<Reached> moment_;
  std::shared_ptr<const Work> record_;
};

// What one launch has of its own for an event node.
struct EventStep {
  Ticket ticket;                     // wait: what for.  record: where it completes.
  std::shared_ptr<Reached> moment;   // record
  std::shared_ptr<const Work> work;  // events that other processes see
};
using EventSteps = std::unordered_map<uint32_t, EventStep>;

// Threads for lanes, shared by all launches: a process has as many as ever ran at the same time.
class LanePool {
 public:
  std::shared_ptr<Queue> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return std::make_shared<Queue>(fault_);
    }
    std::shared_ptr<Queue> queue = std::move(free_.back());
    free_.pop_back();
    return queue;
  }
  void give(std::shared_ptr<Queue> queue) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(queue));
  }

 private:
  // Errors of a context must not make a lane skip its part: the others would wait for it.
  const std::shared_ptr<Fault> fault_ = std::make_shared<Fault>();
  std::mutex mutex_;
  std::vector<std::shared_ptr<Queue>> free_;
};

LanePool& lane_pool() {
  static LanePool& pool = *new LanePool;
  return pool;
}

// One run of a plan.
class Playback {
 public:
  Playback(const Plan& plan, const EventSteps& events, const Run& run)
      : plan_(plan),
        events_(events),
        fault_(run.fault),
        origin_(run.origin),
        start_ns_(run.start_ns) {}

  // All lanes; this thread is lane 0.  Returns the virtual end.
  int64_t play();
  void play_lane(uint32_t lane);
  CUresult error() const { return static_cast<CUresult>(error_.load()); }

 private:
  int64_t play_step(uint32_t step, int64_t start_ns);
  int64_t play_event(const EventStep& event, int64_t start_ns);
  int64_t wait_for(uint32_t step);
  void finish(uint32_t step, int64_t end_ns);

  const Plan& plan_;
  const EventSteps& events_;
  const Fault& fault_;
  const Origin origin_;
  const int64_t start_ns_;
  std::atomic<int> error_{0};
  // Of each step its virtual end, 0 while it is not done.  Only with several lanes.
  std::unique_ptr<std::atomic<int64_t>[]> ends_ns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<uint32_t> waiters_{0};
};

class LaneWork final : public Work {
 public:
  LaneWork(Playback& playback, uint32_t lane) : playback_(playback), lane_(lane) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_GRAPH; }
  CUresult run(Run&) const override {
    playback_.play_lane(lane_);
    return CUDA_SUCCESS;
  }

 private:
  Playback& playback_;
  uint32_t lane_;
};

int64_t Playback::play() {
  const Layout& layout = *plan_.layout;
  if (layout.lanes.size() == 1) {
    int64_t end_ns = start_ns_;
    for (uint32_t step = 0; step < layout.steps.size(); ++step) {
      end_ns = play_step(step, end_ns);
    }
    return end_ns;
  }
  ends_ns_ = std::make_unique<std::atomic<int64_t>[]>(layout.steps.size());
  std::vector<Ticket> others;
  for (uint32_t lane = 1; lane < layout.lanes.size(); ++lane) {
    Operation operation;
    operation.work = std::make_shared<LaneWork>(*this, lane);
    std::shared_ptr<Queue> queue = lane_pool().take();
    const uint64_t sequence = queue->push(std::move(operation));
    others.push_back({std::move(queue), sequence});
  }
  play_lane(0);
  for (Ticket& ticket : others) {
    ticket.wait();
    lane_pool().give(std::move(ticket.queue));
  }
  int64_t end_ns = start_ns_;
  for (size_t step = 0; step < layout.steps.size(); ++step) {
    end_ns = std::max(end_ns, ends_ns_[step].load());
  }
  return end_ns;
}

void Playback::play_lane(uint32_t lane) {
  int64_t end_ns = start_ns_;
  for (uint32_t step : plan_.layout->lanes[lane]) {
    for (uint32_t dependency : plan_.layout->steps[step].dependencies) {
      end_ns = std::max(end_ns, wait_for(dependency));
    }
    end_ns = play_step(step, end_ns);
    finish(step, end_ns);
  }
}

int64_t Playback::play_step(uint32_t step, int64_t start_ns) {
  const StepWork& todo = plan_.works[step];
  if (todo.event) {
    return play_event(events_.at(step), start_ns);
  }
  if (!todo.work || error_.load() || fault_.error.load() || fault_.cancelled.load()) {
    return start_ns;
  }
  Run run = {start_ns, start_ns, fault_, origin_};
  const int result = todo.work->run(run);
  int none = 0;
  if (result != CUDA_SUCCESS) {
    error_.compare_exchange_strong(none, result);
  }
  wait_until(run.end_ns, fault_);
  trace_work(*todo.work, run);
  return run.end_ns;
}

int64_t Playback::play_event(const EventStep& event, int64_t start_ns) {
  if (event.work) {
    Run run = {start_ns, start_ns, fault_};
    event.work->run(run);
    return run.end_ns;
  }
  if (event.moment) {
    event.moment->set(start_ns);
  }
  event.ticket.wait();
  return event.ticket.queue ? std::max(start_ns, event.ticket.queue->end_ns()) : start_ns;
}

int64_t Playback::wait_for(uint32_t step) {
  if (const int64_t end_ns = ends_ns_[step].load()) {
    return end_ns;
  }
  waiters_.fetch_add(1);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ns_[step].load() != 0; });
  }
  waiters_.fetch_sub(1);
  return ends_ns_[step].load();
}

// As in Queue::publish: a waiter counts itself before it looks, this looks for waiters afterwards.
void Playback::finish(uint32_t step, int64_t end_ns) {
  ends_ns_[step].store(end_ns);
  if (waiters_.load() > 0) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
}

class GraphWork final : public Work {
 public:
  GraphWork(std::shared_ptr<const Plan> plan, EventSteps events)
      : plan_(std::move(plan)), events_(std::move(events)) {}
  // A launch that is skipped after an error must not leave its events pending.
  ~GraphWork() override {
    for (const auto& [step, event] : events_) {
      if (event.moment) {
        event.moment->set(0);
      }
    }
  }
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_GRAPH; }

  CUresult run(Run& run) const override {
    Playback playback(*plan_, events_, run);
    run.end_ns = playback.play();
    return playback.error();
  }

 private:
  std::shared_ptr<const Plan> plan_;
  EventSteps events_;
};

EventStep record_at_launch(Event& event, const std::shared_ptr<Queue>& queue) {
  EventStep step;
  if (event.shared) {
    step.work = shared_record_work(event);
    return step;
  }
  step.moment = std::make_shared<Reached>();
  auto recording = std::make_shared<Recording>();
  Operation operation;
  operation.work = std::make_shared<ReachedWork>(step.moment, record_work(recording));
  const std::lock_guard lock(event.mutex);
  step.ticket = {queue, queue->push(
                            std::move(operation), [](std::vector<Ticket>&) {}, /*exempt=*/true)};
  recording->ticket = step.ticket;
  event.last = std::move(recording);
  event.captured_in.reset();
  event.captured_after.clear();
  return step;
}

EventStep wait_at_launch(Event& event) {
  EventStep step;
  if (event.shared) {
    step.work = shared_wait_work(event);
  } else {
    step.ticket = event_ticket(event);
  }
  return step;
}

}  // namespace

RecordQueues::RecordQueues(size_t count) {
  const auto fault = std::make_shared<Fault>();
  for (size_t i = 0; i < count; ++i) {
    queues_.push_back(std::make_shared<Queue>(fault));
  }
}

RecordQueues::~RecordQueues() {
  for (const std::shared_ptr<Queue>& queue : queues_) {
    queue->close();
  }
}

std::shared_ptr<const Work> make_graph_work(std::shared_ptr<const Plan> plan) {
  // A single step needs no frame around it.
  const StepWork& first = plan->works.front();
  if (plan->works.size() == 1 && first.work && plan->references->counts().empty()) {
    return first.work;
  }
  return std::make_shared<GraphWork>(std::move(plan), EventSteps{});
}

std::shared_ptr<const Work> make_graph_work_with_events(std::shared_ptr<const Plan> plan) {
  EventSteps events;
  size_t records = 0;
  for (uint32_t step : plan->event_steps) {
    const StepWork& todo = plan->works[step];
    events[step] = todo.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD
                       ? record_at_launch(*todo.event, plan->records->at(records++))
                       : wait_at_launch(*todo.event);
  }
  return std::make_shared<GraphWork>(std::move(plan), std::move(events));
}

}  // namespace simgpu
