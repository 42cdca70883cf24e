#include "analyzer/memory/memory_sources.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

bool is_mapping(std::string_view name) {
  return name.starts_with("cuMemMap") || name.starts_with("cuMemUnmap");
}
bool is_handle(std::string_view name) {
  return name.starts_with("cuMemCreate") || name.starts_with("cuMemRelease");
}

// None: of no memory.
std::optional<AddressSpace> space_of(std::string_view name) {
  if (is_mapping(name)) {
    return AddressSpace::kDevice;
  }
  if (is_handle(name)) {
    return AddressSpace::kHandle;
  }
  const auto kind = kind_of_call(name);
  if (!kind || name.find("AddressFree") != name.npos || name.find("Trim") != name.npos ||
      name.find("ShareableHandle") != name.npos) {
    return std::nullopt;
  }
  if (name.find("Unregister") != name.npos) {
    return AddressSpace::kRegistered;
  }
  switch (*kind) {
    case MemoryKind::kRegistered:
      return AddressSpace::kRegistered;
    case MemoryKind::kPinned:
      return AddressSpace::kHost;
    case MemoryKind::kArray:
      return AddressSpace::kArray;
    default:
      return AddressSpace::kDevice;
  }
}

int device_of(uint8_t device) {
  return device == format::kNoDevice ? -1 : device;
}

uint64_t address_of(const ProcessTrace& trace, const CallRecord& event, AddressSpace space) {
  const char* const name = space == AddressSpace::kHandle  ? "handle"
                           : space == AddressSpace::kArray ? "array"
                                                           : "address";
  return value_of(trace, event, name).value_or(0);
}

// The only one that its allocations name.
int only_device(const ProcessTrace& trace) {
  std::set<int> devices;
  for (const AllocationText& allocation : trace.allocations) {
    devices.insert(device_of(allocation.device));
  }
  for (const TensorDeviceText& device : trace.tensor_devices) {
    devices.insert(device.device);
  }
  devices.erase(-1);
  return devices.size() == 1 ? *devices.begin() : -1;
}

}  // namespace

MemorySources::MemorySources(const ProcessTrace& trace)
    : trace_(trace), only_device_(only_device(trace)) {
  for (const TensorBlockText& block : trace.tensor_blocks) {
    reported_.emplace_back(block.address, device_of(block.device));
  }
  for (const CallRecord& event : trace.events) {
    const CallSchema* const schema = event.moment ? schema_of(trace, event.call) : nullptr;
    if (schema != nullptr && schema->kind == "tensor-block") {
      reported_.emplace_back(value_of(trace, event, "address").value_or(0),
                             device_of(event.device));
    }
  }
  std::sort(reported_.begin(), reported_.end());
  reported_.erase(std::unique(reported_.begin(), reported_.end()), reported_.end());
}

Owner MemorySources::owner(uint32_t stack) {
  const auto [found, is_new] = owners_.emplace(stack, Owner::kUnknown);
  if (is_new) {
    found->second = owner_of(trace_, stack);
  }
  return found->second;
}

int MemorySources::device_of_blocks_in(const LiveBlock& block) const {
  const auto first =
      std::lower_bound(reported_.begin(), reported_.end(), std::pair(block.address, -1));
  return first != reported_.end() && first->first - block.address < block.bytes
             ? std::max(first->second, 0)
             : -1;
}

std::optional<MemoryStep> MemorySources::from(uint32_t call, uint32_t stack, uint64_t address,
                                              uint64_t bytes, uint8_t device) {
  const std::string name = call_name(trace_, call);
  const auto space = space_of(name);
  if (!space) {
    return std::nullopt;
  }
  MemoryStep step;
  step.stack = stack;
  step.space = *space;
  step.block.address = address;
  step.block.bytes = bytes;
  step.block.stack = stack;
  step.block.call = call;
  step.block.kind = kind_of_call(name).value_or(MemoryKind::kDevice);
  step.block.owner = owner(stack);
  step.block.mapped = is_mapping(name);
  const bool of_torch =
      step.block.owner == Owner::kTorch && !reported_.empty() && name.find("Async") == name.npos;
  const int inside = device_of_blocks_in(step.block);
  const bool is_segment = *space == AddressSpace::kDevice && (of_torch || inside >= 0);
  // Threads that never chose a device are on one all the same.
  step.block.device = device != format::kNoDevice ? device
                      : is_segment && inside >= 0 ? inside
                                                  : only_device_;
  step.block.holder = is_segment ? Holder::kSegment : Holder::kCall;
  // One memory, which has a handle, and addresses where it is mapped: PyTorch's counts by these.
  if ((of_torch && *space == AddressSpace::kHandle) || (step.block.mapped && !is_segment)) {
    return std::nullopt;
  }
  return step;
}

std::vector<MemoryStep> MemorySources::live() {
  std::vector<MemoryStep> all;
  for (const AllocationText& allocation : trace_.allocations) {
    if (auto step = from(allocation.call, allocation.stack, allocation.address, allocation.bytes,
                         allocation.device)) {
      step->time = step->block.time = allocation.time;
      step->taken = true;
      all.push_back(*step);
    }
  }
  for (const TensorBlockText& block : trace_.tensor_blocks) {
    MemoryStep step;
    step.space = AddressSpace::kBlock;
    step.stack = block.stack;
    step.block = {block.address,           block.bytes,         block.time,     block.stack,  0,
                  device_of(block.device), MemoryKind::kDevice, Holder::kBlock, Owner::kTorch};
    all.push_back(step);
  }
  return all;
}

void MemorySources::add_call(const CallRecord& event, const CallSchema& schema,
                             std::vector<MemoryStep>& steps) {
  const auto space = space_of(schema.name);
  const uint64_t address = space ? address_of(trace_, event, *space) : 0;
  const auto bytes = value_of(trace_, event, "bytes");
  if (address == 0) {
    return;
  }
  if (schema.kind == "alloc") {
    auto step = from(event.call, event.stack, address, bytes.value_or(0), event.device);
    if (step && bytes) {
      step->taken = true;
      step->time = step->block.time = event.leave;
      steps.push_back(*step);
    }
    return;
  }
  MemoryStep step;
  step.time = event.enter;
  step.stack = event.stack;
  step.space = *space;
  step.block.address = address;
  step.range = is_mapping(schema.name) ? bytes.value_or(1) : 1;
  steps.push_back(step);
}

void MemorySources::add_report(const CallRecord& event, std::vector<MemoryStep>& steps) const {
  const auto change = static_cast<int64_t>(value_of(trace_, event, "change").value_or(0));
  const uint64_t address = value_of(trace_, event, "address").value_or(0);
  if (address == 0 || change == 0) {
    return;
  }
  MemoryStep step;
  step.time = event.enter;
  step.stack = event.stack;
  step.taken = change > 0;
  step.space = AddressSpace::kBlock;
  const uint64_t bytes =
      change > 0 ? static_cast<uint64_t>(change) : uint64_t{0} - static_cast<uint64_t>(change);
  step.block = {address,
                bytes,
                change > 0 ? event.enter : 0,
                change > 0 ? event.stack : 0,
                event.call,
                device_of(event.device),
                MemoryKind::kDevice,
                Holder::kBlock,
                Owner::kTorch};
  steps.push_back(step);
}

std::vector<MemoryStep> MemorySources::steps() {
  std::vector<MemoryStep> steps;
  for (const CallRecord& event : trace_.events) {
    const CallSchema* const schema = schema_of(trace_, event.call);
    if (schema == nullptr || event.enter_lost || !event.returned || event.result != 0) {
      continue;
    }
    if (schema->kind == "alloc" || schema->kind == "free") {
      add_call(event, *schema, steps);
    } else if (schema->kind == "tensor-block") {
      add_report(event, steps);
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const MemoryStep& a, const MemoryStep& b) { return a.time < b.time; });
  return steps;
}

bool MemorySources::tables_were_full() const {
  return std::any_of(trace_.losses.begin(), trace_.losses.end(), [](const LossText& loss) {
    return loss.count != 0 &&
           (loss.stat == "allocations-full" || loss.stat == "tensor-blocks-full");
  });
}

}  // namespace traintrace
