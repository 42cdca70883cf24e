#include "analyzer/importers/memory/memory_trace.h"

#include <algorithm>

#include "analyzer/text/schema_text.h"

namespace traintrace {
namespace {

constexpr uint64_t kAllocatorAddress = 0x1000;
constexpr uint64_t kAllocatorEnd = 0x2000;

}  // namespace

uint32_t MemoryTrace::call(std::string_view name) {
  const auto [at, is_new] =
      calls_.try_emplace(std::string(name), static_cast<uint32_t>(trace.calls.size()));
  if (is_new) {
    trace.calls.push_back(*known_call(name));
  }
  return at->second;
}

CallRecord& MemoryTrace::add(std::string_view name, TimeNs time, int device, uint32_t stack,
                             Values values) {
  const uint32_t number = call(name);
  const CallSchema& schema = trace.calls[number];
  CallRecord& event = trace.events.emplace_back();
  event.thread = 1;
  event.call = number;
  event.stack = stack;
  event.enter = time;
  event.returned = true;
  event.moment = schema.library == "torch";
  event.leave = event.moment ? 0 : time;
  event.device = device_number(device);
  event.first_value = static_cast<uint32_t>(trace.values.size());
  event.value_count = static_cast<uint8_t>(schema.fields.size());
  for (const FieldSchema& field : schema.fields) {
    const auto* const found = std::find_if(
        values.begin(), values.end(), [&](const auto& value) { return value.first == field.name; });
    trace.values.push_back(found == values.end() ? 0 : found->second);
  }
  return event;
}

void MemoryTrace::mark_as_torch(StackText& stack) {
  if (trace.modules.empty()) {
    trace.modules.push_back({kAllocatorAddress, kAllocatorEnd, 0, "", "libc10_cuda.so"});
  }
  stack.native = {kAllocatorAddress + 1};
}

void MemoryTrace::note_time(TimeNs time) {
  if (time > 0) {
    trace.armed = trace.armed == 0 ? time : std::min(trace.armed, time);
    trace.last_alive = std::max(trace.last_alive, time);
  }
}

void MemoryTrace::finish() {
  ThreadText thread;
  thread.serial = 1;
  thread.started = trace.armed;
  thread.events = 2 * trace.events.size();
  trace.threads.push_back(thread);
  trace.records = trace.events.size();
}

uint8_t MemoryTrace::device_number(int64_t device) {
  return device < 0 || device >= format::kNoDevice ? format::kNoDevice
                                                   : static_cast<uint8_t>(device);
}

}  // namespace traintrace
