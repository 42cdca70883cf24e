// `TIME PROCESS/THREAD > CALL ..`, `TIME PROCESS/THREAD < CALL =RESULT ..`, and with `*` what has
// no duration
#include <algorithm>

#include "analyzer/text/record_lines.h"

namespace traintrace {
namespace {

bool read_values(DraftSet& drafts, Draft& draft, KeyReader& keys, CallRecord& event,
                 bool after_call) {
  ProcessTrace& trace = draft.trace;
  const std::vector<FieldSchema> fields = trace.calls[event.call].fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto text = fields[i].after_call == after_call ? keys.take(fields[i].name) : std::nullopt;
    if (!text) {
      continue;
    }
    auto value = parse_value(value_format(fields[i].format), *text);
    const auto label = draft.communicators.find(*text);
    if (fields[i].format == "communicator" && label != draft.communicators.end()) {
      value = label->second + 1;
    }
    if (!value) {
      return drafts.fail("a value (" + fields[i].format + ") for " + fields[i].name +
                         " instead of " + *text);
    }
    trace.values[event.first_value + i] = *value;
  }
  return true;
}

size_t add_event(Draft& draft, uint32_t thread, uint32_t call, TimeNs time) {
  ProcessTrace& trace = draft.trace;
  CallRecord& event = trace.events.emplace_back();
  event.thread = thread;
  event.call = call;
  event.enter = time;
  event.first_value = static_cast<uint32_t>(trace.values.size());
  event.value_count = static_cast<uint8_t>(trace.calls[call].fields.size());
  trace.values.resize(trace.values.size() + event.value_count);
  return trace.events.size() - 1;
}

bool read_enter(DraftSet& drafts, Draft& draft, KeyReader& keys, CallRecord& event) {
  keys.stack(event.stack);
  event.leave_lost = keys.take_word("leave-lost");
  keys.number("on-device", event.device, 0);
  keys.hex("caller", event.caller);
  return read_values(drafts, draft, keys, event, false);
}

bool read_leave(DraftSet& drafts, Draft& draft, KeyReader& keys, CallRecord& event, TimeNs time) {
  event.leave = time;
  event.returned = true;
  const auto result = keys.take_behind("=");
  const auto code = parse_result(result.value_or("0"));
  if (!code) {
    return drafts.fail("=RESULT, a name or a number, instead of " + *result);
  }
  event.result = *code;
  return read_values(drafts, draft, keys, event, true);
}

// The innermost entry of that call; without one, a call whose entry was lost.
size_t event_left(Draft& draft, uint32_t thread, uint32_t call, TimeNs time) {
  std::vector<size_t>& open = draft.open_events[thread];
  const auto found = std::find_if(open.rbegin(), open.rend(), [&](size_t index) {
    return draft.trace.events[index].call == call;
  });
  if (found == open.rend()) {
    const size_t index = add_event(draft, thread, call, time);
    draft.trace.events[index].enter_lost = true;
    return index;
  }
  const size_t index = *found;
  open.erase(found.base() - 1, open.end());
  return index;
}

}  // namespace

bool read_event_line(DraftSet& drafts, std::span<const std::string> words) {
  const auto time = parse_time(words[0], drafts.start);
  const size_t slash = words[1].rfind('/');
  const auto found = drafts.by_name.find(words[1].substr(0, slash));
  const auto thread = slash == std::string::npos
                          ? std::nullopt
                          : parse_unsigned(std::string_view(words[1]).substr(slash + 1));
  if (!time || !thread || *thread > 0xffffffff || words.size() < 4) {
    return drafts.fail("TIME PROCESS/THREAD > CALL ..");
  }
  if (found == drafts.by_name.end()) {
    return drafts.fail("a `process` or `ranks` line above for " + words[1]);
  }
  Draft& draft = *found->second;
  const auto call = draft.call(words[3]);
  if (!call) {
    return drafts.fail("a call of calls.def, or a `call` line above for " + words[3]);
  }
  drafts.note_time(*time);
  const auto serial = static_cast<uint32_t>(*thread);
  KeyReader keys(words.subspan(4), &draft, drafts);
  if (words[2] == "*") {
    CallRecord& event = draft.trace.events[add_event(draft, serial, *call, *time)];
    event.leave = *time;
    event.returned = event.moment = true;
    return read_enter(drafts, draft, keys, event) && keys.finish();
  }
  if (words[2] == ">") {
    const size_t index = add_event(draft, serial, *call, *time);
    draft.open_events[serial].push_back(index);
    return read_enter(drafts, draft, keys, draft.trace.events[index]) && keys.finish();
  }
  CallRecord& event = draft.trace.events[event_left(draft, serial, *call, *time)];
  return read_leave(drafts, draft, keys, event, *time) && keys.finish();
}

}  // namespace traintrace
