#include <algorithm>
#include <iterator>

#include "analyzer/memory/history.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

// Streams have a table of their own.
constexpr std::string_view kHandleFields[] = {"event", "graph_exec", "graph", "pool", "stream"};

struct Handle {
  size_t field = 0;  // of kHandleFields
  uint64_t value = 0;
  auto operator<=>(const Handle&) const = default;  // NOLINT(modernize-use-nullptr)
};

// What a call that creates gives back; what one that destroys is given.
std::optional<Handle> handle_of(const ProcessTrace& trace, const CallRecord& event,
                                const CallSchema& schema, bool created) {
  for (size_t i = 0; i < event.value_count && i < schema.fields.size(); ++i) {
    const auto field =
        std::find(std::begin(kHandleFields), std::end(kHandleFields), schema.fields[i].name);
    const uint64_t value = trace.values_of(event)[i];
    if (field != std::end(kHandleFields) && value != 0 && schema.fields[i].after_call == created) {
      return Handle{static_cast<size_t>(field - std::begin(kHandleFields)), value};
    }
  }
  return std::nullopt;
}

struct Creation {
  uint32_t stack = 0;
  uint32_t call = 0;
  TimeNs time = 0;
};

}  // namespace

// What is destroyed when all work is done was left by the steps: as a process ends, or an exception
// unwinds, Python destroys what nobody had.
std::vector<HandleGroup> handles_of(const ProcessTrace& trace, TimeNs work_end) {
  std::map<Handle, Creation> live;
  std::map<uint32_t, HandleGroup> groups;  // by stack
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    const bool creates =
        schema != nullptr && (schema->kind == "create" || schema->kind == "capture");
    if (schema == nullptr || event.enter_lost || !event.returned || event.result != 0 ||
        (!creates && schema->kind != "destroy")) {
      continue;
    }
    const auto handle = handle_of(trace, event, *schema, creates);
    const bool is_last = work_end != 0 && event.enter > work_end;
    if (handle && creates) {
      live[*handle] = {event.stack, event.call, event.enter};
    } else if (is_last) {
      continue;
    } else if (const auto found = handle ? live.find(*handle) : live.end(); found != live.end()) {
      ++groups[found->second.stack].destroyed;
      live.erase(found);
    }
  }
  for (const auto& [handle, birth] : live) {
    HandleGroup& group = groups[birth.stack];
    group.stack = birth.stack;
    group.call = birth.call;
    group.births.push_back(birth.time);
  }
  std::vector<HandleGroup> left;
  for (auto& [stack, group] : groups) {
    if (!group.births.empty()) {
      std::sort(group.births.begin(), group.births.end());
      left.push_back(std::move(group));
    }
  }
  std::stable_sort(left.begin(), left.end(), [](const HandleGroup& a, const HandleGroup& b) {
    return a.births.size() > b.births.size();
  });
  return left;
}

}  // namespace traintrace
