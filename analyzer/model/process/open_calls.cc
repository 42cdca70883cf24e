#include "analyzer/model/process/open_calls.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// What thread `serial` has not returned from, as its event says it; null: events were not read.
const CallRecord* open_event(const ProcessTrace& trace, const ThreadText& thread) {
  const ThreadText::Open& open = thread.open[0];
  const auto found =
      std::find_if(trace.events.rbegin(), trace.events.rend(), [&](const CallRecord& event) {
        return event.thread == thread.serial && event.call == open.call && !event.returned &&
               !event.enter_lost;
      });
  return found == trace.events.rend() ? nullptr : &*found;
}

// The legacy default stream waits for all others.  Not known: not that one.
bool is_of_legacy_stream(const ProcessTrace& trace, const ThreadText& thread,
                         const CallSchema& schema) {
  const auto field = std::find_if(schema.fields.begin(), schema.fields.end(),
                                  [](const FieldSchema& f) { return f.name == "stream"; });
  if (field == schema.fields.end()) {
    return !waits_for_event(schema);
  }
  const CallRecord* event = open_event(trace, thread);
  const auto index = static_cast<size_t>(field - schema.fields.begin());
  return event != nullptr && index < event->value_count && trace.values_of(*event)[index] <= 1 &&
         schema.name.find("_pt") == std::string::npos;
}

bool is_implicit(const ProcessTrace& trace, const ThreadText& thread, const CallSchema& schema) {
  constexpr std::string_view kOfTheDevice[] = {"alloc",   "free",   "module",
                                               "context", "launch", "destroy"};
  return std::find(std::begin(kOfTheDevice), std::end(kOfTheDevice), schema.kind) !=
             std::end(kOfTheDevice) ||
         is_of_legacy_stream(trace, thread, schema);
}

bool polls(const ProcessTrace& trace, const ThreadText& thread, TimeNs until) {
  const CallSchema* schema = thread.last_call ? schema_of(trace, *thread.last_call) : nullptr;
  return schema != nullptr && schema->kind == "query" && thread.queries != 0 &&
         elapsed(thread.last_query_time, until) <= kPollsLately;
}

}  // namespace

bool waits_for_event(const CallSchema& schema) {
  return schema.kind == "sync" && schema.name.find("Event") != std::string::npos;
}

std::optional<OpenCall> open_cuda_call(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  const TimeNs since = blocked_in_cuda(run, state);
  for (const ThreadText& thread : trace.threads) {
    const ThreadText::Open& open = thread.open[0];
    if (since != 0 && open.enter == since && thread.open[1].enter == 0 &&
        works_for(state, thread)) {
      const CallSchema& schema = *schema_of(trace, open.call);
      return OpenCall{schema.name, since, open.stack, is_implicit(trace, thread, schema)};
    }
  }
  return std::nullopt;
}

bool is_polling(const ProcessTrace& trace, TimeNs until) {
  return std::any_of(trace.threads.begin(), trace.threads.end(),
                     [&](const ThreadText& thread) { return polls(trace, thread, until); });
}

TimeNs polling_since(const ProcessTrace& trace, TimeNs until) {
  TimeNs earliest = 0;
  for (const ThreadText& thread : trace.threads) {
    if (!polls(trace, thread, until)) {
      continue;
    }
    const auto last =
        std::find_if(trace.events.rbegin(), trace.events.rend(),
                     [&](const CallRecord& event) { return event.thread == thread.serial; });
    if (last != trace.events.rend() && last->call == *thread.last_call && !last->enter_lost &&
        (earliest == 0 || last->enter < earliest)) {
      earliest = last->enter;
    }
  }
  return earliest;
}

TimeNs waiting_at(const ProcessTrace& trace, TimeNs time) {
  constexpr std::string_view kWaiting[] = {"sync",   "copy",       "alloc",     "free",
                                           "launch", "collective", "send-recv", "group-end"};
  TimeNs earliest = polling_since(trace, time);
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    const bool waits = schema != nullptr && std::find(std::begin(kWaiting), std::end(kWaiting),
                                                      schema->kind) != std::end(kWaiting);
    if (waits && !event.enter_lost && !event.leave_lost && event.enter < time &&
        (!event.returned || event.leave >= time) && (earliest == 0 || event.enter < earliest)) {
      earliest = event.enter;
    }
  }
  return earliest;
}

}  // namespace traintrace
