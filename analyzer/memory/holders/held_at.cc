#include "analyzer/memory/holders/held_at.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "analyzer/memory/allocator/allocator_events.h"
#include "analyzer/memory/blocks.h"
#include "analyzer/memory/field_value.h"
#include "analyzer/memory/history.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

// PyTorch's segments count by the blocks in them, and by its own totals.
class HeldBlocks {
 public:
  HeldBlocks(const ProcessTrace& trace, OutOfMemoryText& moment)
      : trace_(trace), moment_(moment), allocator_(trace) {}

  void see(const CallRecord& event, FieldValues values) {
    const CallSchema* const schema = schema_of(trace_, event.call);
    if (schema == nullptr || event.enter_lost || event.enter > moment_.time) {
      return;
    }
    const uint64_t address = number_in(values, *schema, "address");
    if (schema->kind == "tensor-block") {
      see_report(event, values, *schema, address);
    } else if (!event.returned || event.result != 0) {
      return;
    } else if (schema->kind == "alloc" && kind_of_call(schema->name) &&
               !is_segment(event, values)) {
      take(calls_, event, address, number_in(values, *schema, "bytes"));
    } else if (schema->kind == "free" && !field_value(values, *schema, "bytes")) {
      calls_.erase(address);
    }
  }

  void see_tables() {
    for (const AllocationText& each : trace_.allocations) {
      if (kind_of_call(call_name(trace_, each.call))) {
        calls_[each.address] = {each.address, each.bytes, each.stack, each.call, each.device};
      }
    }
    const auto report =
        std::find_if(trace_.calls.begin(), trace_.calls.end(),
                     [](const CallSchema& schema) { return schema.kind == "tensor-block"; });
    for (const TensorBlockText& each : trace_.tensor_blocks) {
      if (report != trace_.calls.end()) {
        const auto call = static_cast<uint32_t>(report - trace_.calls.begin());
        tensors_[each.address] = {each.address, each.bytes,  each.stack,
                                  call,         each.device, each.time};
      }
    }
    for (const FreedBlockText& each : trace_.freed_blocks) {  // without an address
      if (report != trace_.calls.end()) {
        const auto call = static_cast<uint32_t>(report - trace_.calls.begin());
        moment_.held.push_back({0, each.bytes, each.stack, call, each.device, each.time});
      }
    }
  }

  bool has_any() const { return !calls_.empty() || !tensors_.empty() || !moment_.held.empty(); }

  void finish() {
    for (const Blocks& blocks : {std::cref(calls_), std::cref(tensors_)}) {
      for (const auto& [address, block] : blocks) {
        moment_.held.push_back(block);
        HeldBlockText& held = moment_.held.back();
        // Threads that never chose a device are on one all the same.
        held.device = held.device == format::kNoDevice ? moment_.device : held.device;
      }
    }
    std::sort(moment_.held.begin(), moment_.held.end(),
              [](const HeldBlockText& a, const HeldBlockText& b) {
                return a.address != b.address ? a.address < b.address : a.call < b.call;
              });
  }

 private:
  using Blocks = std::unordered_map<uint64_t, HeldBlockText>;

  bool is_segment(const CallRecord& event, FieldValues values) {
    const auto act = trace_.tensor_devices.empty() ? std::nullopt : allocator_.of(event, values);
    return act && act->act == AllocatorAct::kMap;
  }
  static void take(Blocks& blocks, const CallRecord& event, uint64_t address, uint64_t bytes) {
    if (address != 0) {
      blocks[address] = {address, bytes, event.stack, event.call, event.device};
    }
  }

  void see_report(const CallRecord& event, FieldValues values, const CallSchema& schema,
                  uint64_t address) {
    const auto change = static_cast<int64_t>(number_in(values, schema, "change"));
    if (change > 0) {
      take(tensors_, event, address, static_cast<uint64_t>(change));
    } else {
      tensors_.erase(address);
    }
    if (event.device == moment_.device) {
      moment_.allocated = number_in(values, schema, "allocated");
      moment_.reserved = number_in(values, schema, "reserved");
    }
  }

  const ProcessTrace& trace_;
  OutOfMemoryText& moment_;
  AllocatorEvents allocator_;
  Blocks tensors_, calls_;
};

TimeNs newest_in_tables(const ProcessTrace& trace) {
  TimeNs newest = 0;
  for (const AllocationText& each : trace.allocations) {
    newest = std::max(newest, each.time);
  }
  for (const TensorBlockText& each : trace.tensor_blocks) {
    newest = std::max(newest, each.time);
  }
  for (const FreedBlockText& each : trace.freed_blocks) {
    newest = std::max(newest, each.time);
  }
  return newest;
}

}  // namespace

OutOfMemoryText held_at(const ProcessTrace& trace, uint8_t device, TimeNs time) {
  OutOfMemoryText moment;
  moment.device = device;
  moment.time = time;
  HeldBlocks blocks(trace, moment);
  if (all_since_armed(trace)) {
    each_event(trace,
               [&](const CallRecord& event, FieldValues values) { blocks.see(event, values); });
  }
  if (!blocks.has_any()) {
    blocks.see_tables();
    moment.time = std::max(time, newest_in_tables(trace));
    for (const TensorDeviceText& each : trace.tensor_devices) {
      if (each.device == device) {
        moment.allocated = each.allocated;
        moment.reserved = each.reserved;
      }
    }
    for (const HeldBlockText& let_go : moment.held) {
      moment.allocated += let_go.device == device ? let_go.bytes : 0;
    }
  }
  blocks.finish();
  return moment;
}

}  // namespace traintrace
