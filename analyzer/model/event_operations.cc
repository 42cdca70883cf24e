#include "analyzer/model/event_operations.h"

#include <algorithm>
#include <optional>

#include "analyzer/model/activity.h"
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

bool is_on(const ProcessTrace& trace, const CallRecord& event, std::string_view kind,
           size_t communicator) {
  const CallSchema* const schema = schema_of(trace, event.call);
  return schema != nullptr && schema->kind == kind && !event.enter_lost &&
         argument_of(trace, event, "comm") == communicator + 1;
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

}  // namespace

EventOperations event_operations(const ProcessTrace& trace, size_t communicator) {
  EventOperations found;
  for (const CallRecord& event : trace.events) {
    if (!is_on(trace, event, "collective", communicator)) {
      continue;
    }
    const OperationText operation = operation_of(trace, event, "root");
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
    if (!is_on(trace, event, "send-recv", communicator)) {
      continue;
    }
    OperationText operation = operation_of(trace, event, "peer");
    operation.receive = call_name(trace, event.call).ends_with("Recv");
    // So far back that nobody waits in it, if not by way of what lies behind it.
    operation.flags = format::kLaunched | format::kFinished;
    if (operation.sequence != 0 && operation.peer == peer && operation.receive == receive) {
      found.try_emplace(operation.sequence, operation);
    }
  }
  return found;
}

}  // namespace traintrace
