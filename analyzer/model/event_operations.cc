#include "analyzer/model/event_operations.h"

#include <algorithm>
#include <optional>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

// What the call was given, not what it gave back.
std::optional<uint64_t> argument_of(const ProcessTrace& trace, const CallRecord& event,
                                    std::string_view name) {
  const std::vector<FieldSchema>& fields = trace.calls[event.call].fields;
  const auto values = trace.values_of(event);
  for (size_t i = 0; i < std::min(fields.size(), values.size()); ++i) {
    if (fields[i].name == name && !fields[i].after_call) {
      return values[i];
    }
  }
  return std::nullopt;
}

int small_value(const ProcessTrace& trace, const CallRecord& event, std::string_view name) {
  const auto value = argument_of(trace, event, name);
  return value ? static_cast<int>(*value) : -1;
}

enum class EventKind : uint8_t { kOther, kCollective, kMessage };

EventKind kind_of(const ProcessTrace& trace, const CallRecord& event) {
  const CallSchema* const schema = schema_of(trace, event.call);
  return schema == nullptr || event.enter_lost ? EventKind::kOther
         : schema->kind == "collective"        ? EventKind::kCollective
         : schema->kind == "send-recv"         ? EventKind::kMessage
                                               : EventKind::kOther;
}

bool is_on(const ProcessTrace& trace, const CallRecord& event, EventKind kind,
           size_t communicator) {
  return kind_of(trace, event) == kind && argument_of(trace, event, "comm") == communicator + 1;
}

OperationText operation_of(const ProcessTrace& trace, const CallRecord& event,
                           std::string_view peer) {
  OperationText operation;
  operation.sequence = argument_of(trace, event, "seq").value_or(0);
  operation.call = event.call;
  operation.stack = event.stack;
  operation.enter = event.enter;
  operation.leave = event.leave;
  operation.count = argument_of(trace, event, "count").value_or(0);
  operation.data_type = small_value(trace, event, "type");
  operation.reduction = small_value(trace, event, "op");
  operation.peer = small_value(trace, event, peer);
  return operation;
}

OperationText collective_of(const ProcessTrace& trace, const CallRecord& event) {
  return operation_of(trace, event, "root");
}

OperationText message_of(const ProcessTrace& trace, const CallRecord& event) {
  OperationText message = operation_of(trace, event, "peer");
  message.collective = false;
  message.receive = call_name(trace, event.call).ends_with("Recv");
  return message;
}

}  // namespace

EventOperations event_operations(const ProcessTrace& trace, size_t communicator) {
  EventOperations found;
  for (const CallRecord& event : trace.events) {
    if (!is_on(trace, event, EventKind::kCollective, communicator)) {
      continue;
    }
    const OperationText operation = collective_of(trace, event);
    if (operation.sequence != 0) {
      found.try_emplace(operation.sequence, sequence_item(trace, operation));
    }
  }
  return found;
}

EventMessages event_messages(const ProcessTrace& trace, size_t communicator, int peer,
                             bool receive) {
  EventMessages found;
  for (const CallRecord& event : trace.events) {
    if (!is_on(trace, event, EventKind::kMessage, communicator)) {
      continue;
    }
    OperationText operation = message_of(trace, event);
    // So far back that nobody waits in it, if not by way of what lies behind it.
    operation.flags = format::kLaunched | format::kFinished;
    if (operation.sequence != 0 && operation.peer == peer && operation.receive == receive) {
      found.try_emplace(operation.sequence, operation);
    }
  }
  return found;
}

std::optional<EventOperation> operation_in(const ProcessTrace& trace, const CallRecord& event) {
  const EventKind kind = kind_of(trace, event);
  const uint64_t communicator =
      kind == EventKind::kOther ? 0 : argument_of(trace, event, "comm").value_or(0);
  if (communicator == 0 || communicator > trace.communicators.size()) {
    return std::nullopt;
  }
  return EventOperation{communicator - 1, kind == EventKind::kCollective
                                              ? collective_of(trace, event)
                                              : message_of(trace, event)};
}

std::vector<EventOperation> newest_event_operations(const ProcessTrace& trace, size_t most) {
  std::vector<EventOperation> found;
  for (auto event = trace.events.rbegin(); event != trace.events.rend() && found.size() < most;
       ++event) {
    if (const auto one = operation_in(trace, *event)) {
      found.push_back(*one);
    }
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace traintrace
