#include "analyzer/memory/holders/nccl_memory.h"

#include <algorithm>
#include <map>

#include "analyzer/memory/blocks.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

template <class Span>
bool covers(const Span& span, TimeNs time) {
  return span.enter != 0 && span.enter <= time && (span.leave == 0 || time <= span.leave);
}

// When it was being made: who never said that it was ready was so before it was used.
std::optional<TimeNs> end_of_creation(const CommunicatorText& text) {
  if (text.ready != 0 || text.operations == 0) {
    return text.ready != 0 ? text.ready : text.ended;
  }
  const bool first_is_kept = !text.recent.empty() && text.recent.front().index == 0;
  return first_is_kept ? std::optional(text.recent.front().enter) : std::nullopt;
}

bool takes_memory(const CallSchema& schema) {
  return schema.kind == "alloc" && schema.library != "nccl" && kind_of_call(schema.name);
}

}  // namespace

NcclCalls::NcclCalls(const ProcessTrace& trace, std::vector<TimeNs> times)
    : trace_(trace), times_(std::move(times)) {
  std::sort(times_.begin(), times_.end());
  add_tables();
  if (!times_.empty()) {
    add_events();
  }
}

bool NcclCalls::is_asked_for(const CallRecord& event) const {
  const auto first = std::lower_bound(times_.begin(), times_.end(), event.enter);
  return first != times_.end() && (event.leave == 0 || *first <= event.leave);
}

void NcclCalls::add_tables() {
  for (size_t i = 0; i < trace_.communicators.size(); ++i) {
    const CommunicatorText& text = trace_.communicators[i];
    if (const auto end = end_of_creation(text)) {
      tables_.push_back({text.created, *end, 0, "", {i + 1}});
    }
    for (const OperationText& operation : text.recent) {
      tables_.push_back(
          {operation.enter, operation.leave, 0, call_name(trace_, operation.call), {i + 1}});
    }
  }
}

// What is called inside a group is done at its end.
void NcclCalls::add_events() {
  struct Group {
    int depth = 0;
    std::set<uint64_t> communicators;
  };
  std::map<uint32_t, Group> groups;  // by thread
  for (const CallRecord& event : trace_.events) {
    const CallSchema* const schema = schema_of(trace_, event.call);
    if (schema == nullptr || event.enter_lost || event.moment) {
      continue;
    }
    if (takes_memory(*schema) && is_asked_for(event)) {
      allocations_.emplace(value_of(trace_, event, "address").value_or(0),
                           Allocation{event.enter, event.leave, event.thread});
    }
    if (schema->library != "nccl") {
      continue;
    }
    Group& group = groups[event.thread];
    Call call = {event.enter, event.leave, event.thread, schema->name, {}};
    const bool makes = schema->kind == "comm-init";
    if (const uint64_t id = value_of(trace_, event, makes ? "new_comm" : "comm").value_or(0)) {
      call.communicators.insert(id);
    }
    if (schema->kind == "group-start") {
      ++group.depth;
    } else if (schema->kind == "group-end" && --group.depth <= 0) {
      call.communicators = std::move(group.communicators);
      group = {};
    } else if (group.depth > 0) {
      group.communicators.insert(call.communicators.begin(), call.communicators.end());
    }
    if (is_asked_for(event)) {
      events_.push_back(std::move(call));
    }
  }
}

NcclUse NcclCalls::only_one(const std::vector<const Call*>& calls, int device) const {
  std::set<uint64_t> found;
  std::set<std::string> names;
  for (const Call* const call : calls) {
    for (const uint64_t id : call->communicators) {
      const bool known = id <= trace_.communicators.size();
      const int other = known ? trace_.communicators[id - 1].device : -1;
      if (known && (other < 0 || device < 0 || other == device)) {
        found.insert(id);
      }
    }
    if (!call->name.empty()) {
      names.insert(call->name);
    }
  }
  return {found.size() == 1 ? *found.begin() : 0, names.size() == 1 ? *names.begin() : ""};
}

NcclUse NcclCalls::at(TimeNs time, int device, uint64_t address) const {
  if (time == 0) {
    return {};
  }
  std::vector<const Call*> inside;
  const auto [first, last] = allocations_.equal_range(address);
  const auto taken =
      std::find_if(first, last, [&](const auto& entry) { return covers(entry.second, time); });
  for (const Call& call : events_) {
    if (covers(call, time) && (taken == last || call.thread == taken->second.thread)) {
      inside.push_back(&call);
    }
  }
  // NCCL may take it in a thread of its own.
  const bool own_thread = inside.empty();
  for (const Call& call : events_) {
    if (own_thread && covers(call, time)) {
      inside.push_back(&call);
    }
  }
  NcclUse use = only_one(inside, device);
  if (use.communicator == 0) {
    for (const Call& call : tables_) {
      if (covers(call, time)) {
        inside.push_back(&call);
      }
    }
    use = only_one(inside, device);
  }
  return use;
}

std::string nccl_name(const ProcessTrace& trace, size_t communicator) {
  if (communicator == 0 || communicator > trace.communicators.size()) {
    return "NCCL";
  }
  const std::string& name = trace.communicators[communicator - 1].name;
  return "NCCL " + (name.empty() ? "communicator " + std::to_string(communicator) : name);
}

}  // namespace traintrace
