#include "analyzer/memory/allocator/allocator_history.h"

#include <map>
#include <unordered_set>

#include "analyzer/memory/allocator/device_memory.h"
#include "analyzer/memory/blocks.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

using Devices = std::map<int, DeviceMemory>;

DeviceMemory& memory_on(Devices& devices, int device) {
  return devices.try_emplace(device, device).first->second;
}

int device_number(uint8_t device) {
  return device == format::kNoDevice ? -1 : device;
}

// What is in the tables and older than the records, and what was unmapped without having been
// mapped: of that the size is not known.
void hold_old_segments(const ProcessTrace& trace, TimeNs begin, Devices& devices) {
  for (const AllocationText& allocation : trace.allocations) {
    const std::string call = call_name(trace, allocation.call);
    const bool piece = call == "cuMemMap";
    const bool counts =
        piece || (kind_of_call(call) == MemoryKind::kDevice && call != "cuMemCreate");
    if (counts && allocation.time < begin && owner_of(trace, allocation.stack) == Owner::kTorch) {
      memory_on(devices, allocator_device(trace, allocation.device))
          .hold_segment(allocation.address, allocation.bytes, piece);
    }
  }
}

void hold_old_blocks(const ProcessTrace& trace, TimeNs begin, AllocatorEvents& events,
                     Devices& devices) {
  std::unordered_set<uint64_t> taken;
  const auto hold = [&](int device, uint64_t address, const UsedBlock& block) {
    memory_on(devices, device).hold_block(address, block);
  };
  events.each([&](const AllocatorEvent& event) {
    if (event.act == AllocatorAct::kTake) {
      taken.insert(event.address);
    } else if (event.act == AllocatorAct::kGive && taken.erase(event.address) == 0) {
      hold(event.device, event.address, {event.bytes, begin, 0});
    }
  });
  for (const TensorBlockText& block : trace.tensor_blocks) {
    if (block.time < begin) {
      hold(device_number(block.device), block.address, {block.bytes, block.time, block.stack});
    }
  }
}

// `looked_at`: DeviceMemory::look_at, by device.
Devices follow(const ProcessTrace& trace, const std::map<int, uint64_t>& looked_at) {
  AllocatorEvents events(trace);
  Devices devices;
  for (const auto& [device, report] : looked_at) {
    memory_on(devices, device).look_at(report);
  }
  const TimeNs begin = first_event(trace);
  hold_old_segments(trace, begin, devices);
  hold_old_blocks(trace, begin, events, devices);
  events.each([&](const AllocatorEvent& event) {
    if (event.act == AllocatorAct::kPassed) {
      for (auto& [device, memory] : devices) {
        memory.see(event);
      }
    } else {
      memory_on(devices, event.device).see(event);
    }
  });
  return devices;
}

}  // namespace

std::vector<AllocatorHistory> allocator_histories(const ProcessTrace& trace) {
  if (trace.tensor_devices.empty() || !has_events(trace)) {
    return {};
  }
  std::vector<AllocatorHistory> histories;
  std::map<int, uint64_t> looked_at;
  for (auto& [device, memory] : follow(trace, {})) {
    histories.push_back(memory.finish());
    if (memory.worst_report() != 0) {
      looked_at[device] = memory.worst_report();
    }
  }
  if (!looked_at.empty()) {
    Devices again = follow(trace, looked_at);
    for (AllocatorHistory& history : histories) {
      AllocatorHistory look = again.at(history.device).finish();
      history.worst = std::move(look.worst);
      history.pins = std::move(look.pins);
    }
  }
  std::erase_if(histories, [](const AllocatorHistory& history) { return history.reports == 0; });
  return histories;
}

}  // namespace traintrace
