#include "analyzer/model/process/activity.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/process/threads_now.h"
#include "analyzer/model/runs/run_clocks.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

bool is_python_place(const ProcessTrace& trace, uint32_t stack) {
  const auto place = user_place(trace, {}, stack);
  return place && place->language == "python";
}

Activity activity_of_thread(const ProcessTrace& trace, const ThreadText& thread) {
  Activity activity;
  activity.thread = thread.serial;
  // The call of NCCL is the outer one: what it calls of CUDA is its own affair.
  for (const size_t layer : {1, 0}) {
    const ThreadText::Open& open = thread.open[layer];
    if (open.enter != 0) {
      activity.call = call_name(trace, open.call);
      activity.stack = open.stack;
      activity.time = open.enter;
      activity.open = true;
      const CallSchema* schema = schema_of(trace, open.call);
      activity.kind = schema == nullptr ? "" : schema->kind;
      return activity;
    }
  }
  if (thread.last_call) {
    activity.call = call_name(trace, *thread.last_call);
    const CallSchema* schema = schema_of(trace, *thread.last_call);
    activity.kind = schema == nullptr ? "" : schema->kind;
    activity.queries =
        activity.kind == "query" || activity.kind == "comm-query" ? thread.queries : 0;
  }
  activity.stack = thread.last_stack;
  activity.time =
      std::max(thread.last_call_time, activity.queries > 0 ? thread.last_query_time : 0);
  return activity;
}

// A watchdog: the first that it ever called was the end of a communicator.
bool began_with_abort(const ProcessTrace& trace, const ThreadText& thread) {
  return std::any_of(trace.communicators.begin(), trace.communicators.end(),
                     [&](const CommunicatorText& communicator) {
                       return (communicator.flags & format::kAborted) != 0 &&
                              communicator.ended != 0 && thread.started != 0 &&
                              elapsed(communicator.ended, thread.started) >= -kFirstCallWithin;
                     });
}

std::string_view library_of(const ProcessTrace& trace, uint64_t address) {
  const auto module = std::find_if(
      trace.modules.begin(), trace.modules.end(),
      [&](const ModuleText& one) { return one.begin <= address && address < one.end; });
  return module == trace.modules.end()
             ? std::string_view()
             : std::string_view(module->path).substr(module->path.rfind('/') + 1);
}

// NCCL made the thread: in what it called last no frame is anybody else's, and it says nothing
// about what the job does.
bool is_of_nccl(const ProcessTrace& trace, const ThreadText& thread) {
  const auto stack = trace.stacks.find(thread.last_stack);
  if (thread.open[1].enter != 0 || stack == trace.stacks.end() || !stack->second.python.empty()) {
    return false;
  }
  constexpr std::string_view kBelow[] = {"libnccl", "libc.so", "libpthread", "libstdc++"};
  bool in_nccl = false;
  for (const uint64_t address : stack->second.native) {
    const std::string_view library = library_of(trace, address);
    if (std::none_of(std::begin(kBelow), std::end(kBelow),
                     [&](std::string_view below) { return library.starts_with(below); })) {
      return false;
    }
    in_nccl = in_nccl || library.starts_with(kBelow[0]);
  }
  return in_nccl;
}

// It gave a communicator up, and what it called last NCCL did for that: a watchdog, which never did
// the job's work, or only when there was no more of it.
bool gave_up(const ProcessTrace& trace, const ThreadText& thread) {
  const auto stack = trace.stacks.find(thread.last_stack);
  return thread.open[1].enter == 0 && stack != trace.stacks.end() &&
         std::any_of(
             stack->second.native.begin(), stack->second.native.end(),
             [&](uint64_t address) { return library_of(trace, address).starts_with("libnccl"); }) &&
         std::any_of(
             trace.communicators.begin(), trace.communicators.end(),
             [&](const CommunicatorText& communicator) {
               return (communicator.flags & format::kAborted) != 0 && communicator.ended != 0 &&
                      elapsed(communicator.ended, thread.last_call_time) >= -kFirstCallWithin;
             });
}

std::optional<Activity> last_event_on(const ProcessTrace& trace, int device) {
  for (auto event = trace.events.rbegin(); event != trace.events.rend(); ++event) {
    if (event->device == device && !event->enter_lost && !event->moment) {
      Activity activity;
      const CallSchema* schema = schema_of(trace, event->call);
      activity.call = call_name(trace, event->call);
      activity.kind = schema == nullptr ? "" : schema->kind;
      activity.stack = event->stack;
      activity.time = event->enter;
      activity.open = !event->returned && !event->leave_lost;
      activity.thread = event->thread;
      return activity;
    }
  }
  return std::nullopt;
}

// The earliest entry of an open call of those kinds.
TimeNs open_since(const Run& run, const RankState& state, size_t layer,
                  std::initializer_list<std::string_view> kinds) {
  const ProcessTrace& trace = trace_of(run, state);
  TimeNs since = 0;
  for (const ThreadText& thread : trace.threads) {
    const ThreadText::Open& open = thread.open[layer];
    const CallSchema* schema = open.enter == 0 ? nullptr : schema_of(trace, open.call);
    if (schema != nullptr && std::find(kinds.begin(), kinds.end(), schema->kind) != kinds.end() &&
        (since == 0 || open.enter < since) && works_for(state, thread)) {
      since = open.enter;
    }
  }
  return since;
}

}  // namespace

const ThreadNow* working_thread(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  if (trace.now.empty()) {
    return nullptr;
  }
  const auto activity = activity_of(run, state);
  const auto caller = std::find_if(
      trace.threads.begin(), trace.threads.end(),
      [&](const ThreadText& thread) { return activity && thread.serial == activity->thread; });
  return working_thread(trace, caller == trace.threads.end() ? 0 : caller->tid);
}

const ThreadNow* seen_outside(const Run& run, const RankState& state) {
  const ThreadNow* const thread = has_ended(state) ? nullptr : working_thread(run, state);
  const bool in_vendors =
      thread != nullptr && (thread->waiting == Waiting::kCuda || thread->waiting == Waiting::kNccl);
  return in_vendors ? nullptr : thread;
}

const CallSchema* schema_of(const ProcessTrace& trace, uint32_t call) {
  return call < trace.calls.size() ? &trace.calls[call] : nullptr;
}

std::string call_name(const ProcessTrace& trace, uint32_t call) {
  const CallSchema* schema = schema_of(trace, call);
  return schema == nullptr ? "a call without a name" : schema->name;
}

uint64_t communicator_of(const ProcessTrace& trace, const CallRecord& event) {
  return value_of(trace, event, "comm").value_or(0);
}

bool works_for(const RankState& state, const ThreadText& thread) {
  return state.threads.empty() || std::find(state.threads.begin(), state.threads.end(),
                                            thread.serial) != state.threads.end();
}

TimeNs blocked_in_nccl(const Run& run, const RankState& state) {
  return open_since(run, state, 1,
                    {"collective", "send-recv", "group-end", "comm-init", "comm-end"});
}

TimeNs blocked_in_cuda(const Run& run, const RankState& state) {
  return open_since(
      run, state, 0,
      {"sync", "copy", "set", "alloc", "free", "module", "context", "launch", "destroy"});
}

bool was_stuck_at_end(const Run& run, const RankState& state) {
  const TimeNs until = known_until(run, state);
  const TimeNs waits[] = {blocked_in_nccl(run, state), blocked_in_cuda(run, state),
                          polling_since(trace_of(run, state), until)};
  return std::any_of(std::begin(waits), std::end(waits), [&](TimeNs since) {
    return since != 0 && elapsed(since, until) >= run.hang_after;
  });
}

std::optional<Activity> activity_of(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  if (state.device >= 0) {
    return last_event_on(trace, state.device);
  }
  const ThreadText* best = nullptr;
  std::tuple<bool, bool, TimeNs> best_weight;
  for (const ThreadText& thread : trace.threads) {
    const Activity activity = activity_of_thread(trace, thread);
    const bool of_job =
        !is_of_nccl(trace, thread) && !began_with_abort(trace, thread) && !gave_up(trace, thread);
    const std::tuple weight(of_job, is_python_place(trace, activity.stack), activity.time);
    if (!activity.call.empty() && (best == nullptr || weight > best_weight)) {
      best = &thread;
      best_weight = weight;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(activity_of_thread(trace, *best));
}

std::optional<uint64_t> value_of(const ProcessTrace& trace, const CallRecord& event,
                                 std::string_view field) {
  const CallSchema* schema = schema_of(trace, event.call);
  const auto values = trace.values_of(event);
  for (size_t i = 0; schema != nullptr && i < values.size() && i < schema->fields.size(); ++i) {
    if (schema->fields[i].name == field) {
      return values[i];
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
