#include "analyzer/model/waiting/stream_order.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

using Stream = StreamOrder::Stream;
using Before = StreamOrder::Before;

// Default streams have the same handle on each device: 0 and 1 the legacy one; 2 is that of a
// thread, of which nothing is said here (CUDA Runtime API, "Stream synchronization behavior").
std::optional<Stream> stream_of(uint64_t handle, int device) {
  constexpr uint64_t kLegacy = 1;
  constexpr uint64_t kOfThread = 2;
  if (handle == kOfThread) {
    return std::nullopt;
  }
  return handle <= kLegacy ? Stream{0, device} : Stream{handle, -1};
}

std::optional<Stream> stream_at(const ProcessTrace& trace, uint32_t number) {
  if (number == 0 || number > trace.streams.size()) {
    return std::nullopt;
  }
  const StreamText& stream = trace.streams[number - 1];
  return stream_of(stream.handle, stream.device);
}

void add(const Before& from, Before& to) {
  for (const auto& [stream, time] : from) {
    TimeNs& latest = to[stream];
    latest = std::max(latest, time);
  }
}

class Replay {
 public:
  Replay(const ProcessTrace& trace, TimeNs since) : trace_(trace), since_(since) {}

  void call(const CallRecord& event) {
    const CallSchema* const schema = schema_of(trace_, event.call);
    if (schema == nullptr || event.moment) {
      return;
    }
    if (schema->kind == "query" && event.returned) {
      poll(event);
    }
    if (event.returned && event.result != 0) {
      return;
    }
    if (schema->library == "nccl") {
      enter_nccl(event, schema->kind);
      return;
    }
    const std::string_view name = schema->name;
    const auto on = stream_in(event);
    const auto with = value_of(trace_, event, "event");
    if (schema->kind == "record" && with) {
      record(*with, on, issued_before(event));
    } else if (schema->kind == "wait" && with && on) {
      wait(*on, *with, event.enter);
    } else if (schema->kind == "create" && with && name.find("EventCreate") != name.npos) {
      events_.erase(*with);
      polled_.erase(*with);
    } else if (name.find("StreamBeginCapture") != name.npos && on) {
      capturing_.insert(*on);
    } else if (name.find("StreamEndCapture") != name.npos) {
      capturing_.clear();
    }
  }

  StreamOrder take() {
    StreamOrder order;
    order.told = std::move(told_);
    for (const auto& [handle, poll] : polled_) {
      const Event& recorded = events_.at(handle);
      if (poll.pending && recorded.on) {
        order.unfinished.push_back(
            {*recorded.on, recorded.before.at(*recorded.on), last_polled(poll)});
      }
    }
    return order;
  }

 private:
  // What a call or a group of NCCL issues is put on the streams at its end, as far as is known.
  struct Issuing {
    TimeNs since = 0;
    TimeNs until = 0;  // it returned; 0: it has not
    int groups = 0;    // open
  };
  void enter_nccl(const CallRecord& event, std::string_view kind) {
    Issuing& own = issuing_[event.thread];
    if (own.groups == 0) {
      own.since = event.enter;
    }
    own.until = event.leave;
    own.groups += kind == "group-start" ? 1 : kind == "group-end" && own.groups > 0 ? -1 : 0;
  }
  // Whatever was entered before that time is on its stream.
  TimeNs issued_before(const CallRecord& event) const {
    const auto found = issuing_.find(event.thread);
    if (found == issuing_.end()) {
      return event.enter;
    }
    const Issuing& own = found->second;
    const bool open = own.groups > 0 || own.until == 0 || event.enter < own.until;
    return open ? own.since : event.enter;
  }

  struct Event {
    bool captured = false;
    std::optional<Stream> on;
    Before before;
  };
  // The event was not complete when a thread asked.
  struct PendingPoll {
    uint32_t thread = 0;
    TimeNs time = 0;
    bool pending = true;
  };

  void poll(const CallRecord& event) {
    constexpr int kNotReady = 600;  // cudaErrorNotReady, CUDA_ERROR_NOT_READY
    const auto handle = value_of(trace_, event, "event");
    if (!handle || !events_.contains(*handle)) {
      return;
    }
    polled_[*handle] = {event.thread, event.leave, event.result == kNotReady};
  }

  // Polls are no records as long as the answer is the same and the thread calls nothing else: when
  // the last was is known of the thread, and so of what it began to poll last.
  TimeNs last_polled(const PendingPoll& poll) const {
    const bool is_last = std::none_of(polled_.begin(), polled_.end(), [&](const auto& other) {
      return other.second.thread == poll.thread && other.second.time > poll.time;
    });
    for (const ThreadText& thread : trace_.threads) {
      if (is_last && thread.serial == poll.thread && thread.queries > 0) {
        return std::max(poll.time, thread.last_query_time);
      }
    }
    return poll.time;
  }

  std::optional<Stream> stream_in(const CallRecord& event) const {
    const auto handle = value_of(trace_, event, "stream");
    return handle ? stream_of(*handle, event.device == format::kNoDevice ? -1 : event.device)
                  : std::nullopt;
  }

  void record(uint64_t event, const std::optional<Stream>& on, TimeNs time) {
    Event& recorded = events_[event];
    recorded = {};
    polled_.erase(event);
    if (!on) {
      return;
    }
    recorded.on = on;
    if (capturing_.contains(*on)) {
      recorded = {true, std::nullopt, {}};
      return;
    }
    if (const auto found = told_.find(*on); found != told_.end()) {
      recorded.before = found->second.back().before;
    }
    recorded.before[*on] = time;
  }

  // Waiting for an event of a capture makes the stream a part of it.
  void wait(const Stream& on, uint64_t event, TimeNs time) {
    const auto found = events_.find(event);
    if (found == events_.end() || capturing_.contains(on)) {
      return;
    }
    if (found->second.captured) {
      capturing_.insert(on);
      return;
    }
    std::vector<StreamOrder::Told>& told = told_[on];
    StreamOrder::Told next = {time, told.empty() ? Before() : told.back().before};
    add(found->second.before, next.before);
    if (time < since_ && !told.empty()) {
      told.back() = std::move(next);
    } else {
      told.push_back(std::move(next));
    }
  }

  const ProcessTrace& trace_;
  const TimeNs since_;
  std::map<Stream, std::vector<StreamOrder::Told>> told_;
  std::unordered_map<uint64_t, Event> events_;
  std::map<uint64_t, PendingPoll> polled_;  // by event
  std::set<Stream> capturing_;
  std::unordered_map<uint32_t, Issuing> issuing_;  // by thread
};

// A process's operations that are not known to be over.
struct Pending {
  std::set<uint32_t> streams;
  TimeNs since = 0;  // the first was entered
};

std::map<size_t, Pending> pending_by_process(const Run& run) {
  std::map<size_t, Pending> found;
  for (const Communicator& communicator : run.communicators) {
    for (const Member& member : communicator.members) {
      if (communicator.size == 1 || exited_normally(run, *state_of(run, member.rank))) {
        continue;
      }
      for (const OperationText& operation : text_of(run, member).recent) {
        if (pending(run, member, &operation) != nullptr) {
          Pending& own = found[member.process];
          own.since = own.streams.empty() ? operation.enter : std::min(own.since, operation.enter);
          own.streams.insert(operation.stream);
        }
      }
    }
  }
  for (auto& [process, own] : found) {
    for (const HostFunctionText& function : run.processes[process].host_functions) {
      if (function.entered != 0 && function.left == 0) {
        own.streams.insert(function.stream);
      }
    }
  }
  std::erase_if(found, [](const auto& entry) { return entry.second.streams.size() < 2; });
  return found;
}

}  // namespace

namespace {

// The newest operation that was put on that stream before a time.
OperationText* last_put_on(ProcessTrace& trace, const Stream& stream, TimeNs before) {
  OperationText* last = nullptr;
  for (CommunicatorText& text : trace.communicators) {
    for (OperationText& operation : text.recent) {
      if (operation.enter < before && stream_at(trace, operation.stream) == stream &&
          (last == nullptr || last->enter < operation.enter)) {
        last = &operation;
      }
    }
  }
  return last;
}

// Kernels, copies or waits that the job put on that stream in between: then the event says nothing
// of what came before them.
bool has_other_work(const ProcessTrace& trace, const Stream& stream, TimeNs from, TimeNs to) {
  return std::any_of(trace.events.begin(), trace.events.end(), [&](const CallRecord& event) {
    if (event.enter <= from || event.enter >= to || event.moment) {
      return false;
    }
    const CallSchema* const schema = schema_of(trace, event.call);
    const auto handle = value_of(trace, event, "stream");
    return schema != nullptr && schema->library != "nccl" && schema->kind != "record" &&
           schema->kind != "query" && handle &&
           stream_of(*handle, event.device == format::kNoDevice ? -1 : event.device) == stream;
  });
}

// What frameworks poll for tells how far a GPU is, where nothing else does.
void note_unfinished(const Run& run, const ProcessTrace& with_events,
                     const std::vector<StreamOrder::Unfinished>& unfinished, ProcessTrace& trace) {
  for (const StreamOrder::Unfinished& one : unfinished) {
    OperationText* const operation = last_put_on(trace, one.stream, one.before);
    if (operation != nullptr && operation->gpu == GpuState::kUnknown &&
        !finished(trace, *operation) && elapsed(operation->enter, one.until) >= run.hang_after &&
        !has_other_work(with_events, one.stream, operation->enter, one.before)) {
      operation->gpu = GpuState::kPending;
    }
  }
}

}  // namespace

StreamOrder stream_order_of(const ProcessTrace& trace, TimeNs since) {
  Replay replay(trace, since);
  std::vector<const CallRecord*> calls;
  for (const CallRecord& event : trace.events) {
    const CallSchema* const schema = schema_of(trace, event.call);
    if (schema != nullptr &&
        (schema->kind == "record" || schema->kind == "wait" || schema->kind == "create" ||
         schema->kind == "query" || schema->kind == "capture" || schema->library == "nccl")) {
      calls.push_back(&event);
    }
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const CallRecord* a, const CallRecord* b) { return a->enter < b->enter; });
  for (const CallRecord* event : calls) {
    replay.call(*event);
  }
  return replay.take();
}

bool find_stream_orders(Run& run, const ReadEvents& read_events) {
  constexpr size_t kMost = 128;  // each takes the events of a process
  const std::map<size_t, Pending> wanted = pending_by_process(run);
  if (wanted.size() > kMost) {
    return false;
  }
  for (const auto& [process, pending] : wanted) {
    const ProcessTrace* const trace =
        read_events ? read_events(run.processes[process]) : &run.processes[process];
    StreamOrder order = trace == nullptr ? StreamOrder() : stream_order_of(*trace, pending.since);
    if (trace != nullptr) {
      note_unfinished(run, *trace, order.unfinished, run.processes[process]);
    }
    if (!order.told.empty()) {
      run.stream_orders.emplace(process, std::move(order));
    }
  }
  return !run.stream_orders.empty();
}

const OperationText* pending(const Run& run, const Member& member, const OperationText* operation) {
  constexpr uint8_t kNot = format::kCaptured | format::kFailed | format::kEmpty;
  return operation == nullptr || operation->stream == 0 || operation->position == 0 ||
                 finished(run.processes[member.process], *operation) ||
                 (operation->flags & kNot) != 0
             ? nullptr
             : operation;
}

bool is_told_behind(const Run& run, size_t process, const PutOn& first, const OperationText& then) {
  const auto order = run.stream_orders.find(process);
  const auto own = stream_at(run.processes[process], then.stream);
  const auto other = stream_at(run.processes[process], first.stream);
  if (order == run.stream_orders.end() || !own || !other) {
    return false;
  }
  const auto told = order->second.told.find(*own);
  if (told == order->second.told.end()) {
    return false;
  }
  const auto behind =
      std::upper_bound(told->second.begin(), told->second.end(), then.enter,
                       [](TimeNs time, const StreamOrder::Told& item) { return time < item.time; });
  if (behind == told->second.begin()) {
    return false;
  }
  const auto before = std::prev(behind)->before.find(*other);
  return before != std::prev(behind)->before.end() && first.time < before->second;
}

}  // namespace traintrace
