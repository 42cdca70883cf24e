#include "analyzer/memory/history.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/memory/field_value.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue, CUDA_ERROR_INVALID_VALUE

// From the first to the last time that the GPU was given something to do.
struct Work {
  TimeNs first = 0;
  TimeNs last = 0;
};

Work work_of(const ProcessTrace& trace) {
  Work work;
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema != nullptr && !event.enter_lost &&
        (schema->kind == "launch" || schema->kind == "graph-launch" ||
         schema->kind == "collective")) {
      work.first = work.first == 0 ? event.enter : work.first;
      work.last = event.enter;
    }
  }
  return work;
}

struct Birth {
  uint32_t stack = 0;
  TimeNs time = 0;
};

struct Known {
  uint32_t stack = 0;
  TimeNs time = 0;
  bool freed = false;
};

// Follows addresses through the records, in the order in which calls were entered.
class Follower {
 public:
  Follower(const ProcessTrace& trace, MemoryHistory& history)
      : trace_(trace), history_(history), work_(work_of(trace)) {}

  void see(const CallRecord& event, FieldValues values, const CallSchema& schema) {
    if (schema.kind == "alloc") {
      see_allocation(event, values, schema);
    } else if (schema.kind == "free") {
      see_free(event, values, schema);
    } else if (schema.kind == "tensor-block") {
      see_tensor(event, values, schema);
    }
  }

 private:
  static int device_of(const CallRecord& event) {
    return event.device == format::kNoDevice ? -1 : event.device;
  }

  void see_allocation(const CallRecord& event, FieldValues values, const CallSchema& schema) {
    const auto address = field_value(values, schema, "address");
    if (event.result == 0 && address && kind_of_call(schema.name)) {
      known_[*address] = {event.stack, event.enter, false};
      ++history_.sites[event.stack].allocated;
    }
  }

  void see_free(const CallRecord& event, FieldValues values, const CallSchema& schema) {
    const auto address = field_value(values, schema, "address");
    if (!address || *address == 0 || field_value(values, schema, "bytes")) {
      return;  // of nothing; or a part of an address range
    }
    const auto known = known_.find(*address);
    if (event.result == 0) {
      if (known != known_.end() && !known->second.freed) {
        freed({known->second.stack, known->second.time}, event.enter);
      }
      const bool old =
          known == known_.end() || (!known->second.freed && known->second.time <= work_.first);
      history_.cleans_up =
          history_.cleans_up ||
          (old && work_.last != 0 && event.enter > work_.last && is_of_job(event.stack));
      known_[*address] = {event.stack, event.enter, true};
    } else if (event.result == kInvalidValue) {
      BadFree bad{event.call, event.stack, *address, event.enter, device_of(event)};
      if (known != known_.end() && known->second.freed) {
        bad.before = true;
        bad.first_time = known->second.time;
        bad.first_stack = known->second.stack;
      }
      history_.bad_frees.push_back(bad);
    }
  }

  void see_tensor(const CallRecord& event, FieldValues values, const CallSchema& schema) {
    const uint64_t address = field_value(values, schema, "address").value_or(0);
    const uint64_t change = field_value(values, schema, "change").value_or(0);
    if (address == 0) {
      return;  // an old version, which does not say
    }
    if (static_cast<int64_t>(change) > 0) {
      tensors_[address] = {event.stack, event.enter};
      ++history_.sites[event.stack].allocated;
    } else if (const auto tensor = tensors_.find(address); tensor != tensors_.end()) {
      freed(tensor->second, event.enter);
      tensors_.erase(tensor);
    }
  }

  void freed(const Birth& block, TimeNs time) {
    SiteHistory& site = history_.sites[block.stack];
    ++site.freed;
    const TimeNs last_step = history_.steps.last();
    if (block.time <= last_step && last_step < time) {
      site.freed_behind.push_back(block.time);
    }
  }

  bool is_of_job(uint32_t stack) {
    const auto [found, first] = of_job_.emplace(stack, false);
    found->second = first ? owner_of(trace_, stack) == Owner::kJob : found->second;
    return found->second;
  }

  const ProcessTrace& trace_;
  MemoryHistory& history_;
  const Work work_;
  std::map<uint64_t, Known> known_;
  std::unordered_map<uint64_t, Birth> tensors_;  // of those that are live
  std::map<uint32_t, bool> of_job_;              // by stack
};

// Of some processes only the newest events are read.
bool all_read(const ProcessTrace& trace) {
  constexpr uint64_t kOpenAndNotes = 64;
  uint64_t records = 0;
  for (const ThreadText& thread : trace.threads) {
    records = sum_of(records, thread.events);
  }
  return 2 * event_count(trace) + kOpenAndNotes >= records;
}

bool is_loss_of_records(const LossText& loss) {
  return loss.count != 0 && (loss.stat == "ring-overwritten" || loss.severity == "warning");
}

}  // namespace

bool all_is_recorded(const ProcessTrace& trace) {
  return all_since_armed(trace) &&
         std::none_of(trace.losses.begin(), trace.losses.end(), is_loss_of_records);
}

bool all_since_armed(const ProcessTrace& trace) {
  return trace.errors.empty() && all_read(trace) &&
         std::none_of(trace.losses.begin(), trace.losses.end(), [](const LossText& loss) {
           return loss.stat != "before-arming" && is_loss_of_records(loss);
         });
}

MemoryHistory history_of(const ProcessTrace& trace) {
  MemoryHistory history;
  history.whole = all_is_recorded(trace);
  history.steps = steps_of(trace);
  Follower follower(trace, history);
  each_event(trace, [&](const CallRecord& event, FieldValues values) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema != nullptr && !event.enter_lost && event.returned) {
      follower.see(event, values, *schema);
    }
  });
  history.handles = handles_of(trace, history.steps.work_end);
  return history;
}

}  // namespace traintrace
