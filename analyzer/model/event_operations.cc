#include "analyzer/model/event_operations.h"

#include <optional>

#include "analyzer/model/activity.h"
#include "analyzer/model/sequences.h"

namespace traintrace {
namespace {

std::optional<uint64_t> value_of(const ProcessTrace& trace, const CallRecord& event,
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
  const auto value = value_of(trace, event, name);
  return value ? static_cast<int>(*value) : -1;
}

}  // namespace

EventOperations event_operations(const ProcessTrace& trace, size_t communicator) {
  EventOperations found;
  for (const CallRecord& event : trace.events) {
    const CallSchema* const schema = schema_of(trace, event.call);
    if (schema == nullptr || schema->kind != "collective" || event.enter_lost ||
        value_of(trace, event, "comm") != communicator + 1) {
      continue;
    }
    OperationText operation;
    operation.sequence = value_of(trace, event, "seq").value_or(0);
    operation.call = event.call;
    operation.stack = event.stack;
    operation.enter = event.enter;
    operation.leave = event.leave;
    operation.count = value_of(trace, event, "count").value_or(0);
    operation.data_type = small_value(trace, event, "type");
    operation.reduction = small_value(trace, event, "op");
    operation.peer = small_value(trace, event, "root");
    if (operation.sequence != 0) {
      found.try_emplace(operation.sequence, sequence_item(trace, operation));
    }
  }
  return found;
}

}  // namespace traintrace
