#include "analyzer/memory/allocator/allocator_events.h"

#include <algorithm>

#include "analyzer/memory/blocks.h"

namespace traintrace {
namespace {

constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
constexpr std::string_view kLibrary = "libc10_cuda";

int place_of(const CallSchema& schema, std::string_view name) {
  const auto found = std::find_if(schema.fields.begin(), schema.fields.end(),
                                  [&](const FieldSchema& field) { return field.name == name; });
  return found == schema.fields.end() ? -1 : static_cast<int>(found - schema.fields.begin());
}

std::optional<AllocatorAct> act_of(const CallSchema& schema) {
  const std::string& name = schema.name;
  if (schema.kind == "tensor-block") {
    return AllocatorAct::kTake;
  }
  if (schema.kind == "tensor-failure") {
    return AllocatorAct::kFailed;
  }
  if (name == "cudaMalloc" || name == "cuMemAlloc" || name == "cuMemAlloc_v2" ||
      name == "cuMemMap" || name == "cuMemCreate") {
    return AllocatorAct::kMap;
  }
  if (name == "cudaFree" || name == "cuMemFree" || name == "cuMemFree_v2" || name == "cuMemUnmap") {
    return AllocatorAct::kUnmap;
  }
  const bool of_event = place_of(schema, "event") >= 0;
  return !of_event                 ? std::nullopt
         : schema.kind == "record" ? std::optional(AllocatorAct::kMark)
         : schema.kind == "query" || schema.kind == "destroy" || schema.kind == "sync"
             ? std::optional(AllocatorAct::kPassed)
             : std::nullopt;
}

}  // namespace

int allocator_device(const ProcessTrace& trace, uint8_t device) {
  return device != format::kNoDevice        ? device
         : trace.tensor_devices.size() == 1 ? trace.tensor_devices.front().device
                                            : -1;
}

AllocatorEvents::Form AllocatorEvents::form_of(const CallSchema& schema) {
  Form form;
  form.act = act_of(schema);
  form.piece = schema.name == "cuMemMap" || schema.name == "cuMemUnmap";
  form.of_anybody = form.act == AllocatorAct::kTake || form.act == AllocatorAct::kFailed ||
                    form.act == AllocatorAct::kPassed;
  const bool of_event = form.act == AllocatorAct::kMark || form.act == AllocatorAct::kPassed;
  form.address = place_of(schema, of_event ? "event" : "address");
  form.bytes = place_of(schema, schema.kind == "tensor-block" ? "change" : "bytes");
  form.allocated = place_of(schema, "allocated");
  form.reserved = place_of(schema, "reserved");
  form.stream = place_of(schema, "stream");
  return form;
}

AllocatorEvents::AllocatorEvents(const ProcessTrace& trace) : trace_(trace) {
  for (const CallSchema& schema : trace.calls) {
    forms_.push_back(form_of(schema));
  }
}

// By who called; where that is not known, by who allocated.
bool AllocatorEvents::is_pytorchs(const CallRecord& record) {
  const uint64_t key = record.caller != 0 ? record.caller : ~uint64_t{record.stack};
  const auto [known, is_new] = callers_.try_emplace(key, false);
  if (is_new) {
    const auto module =
        std::find_if(trace_.modules.begin(), trace_.modules.end(), [&](const ModuleText& text) {
          return record.caller >= text.begin && record.caller < text.end;
        });
    known->second = module == trace_.modules.end()
                        ? owner_of(trace_, record.stack) == Owner::kTorch
                        : module->path.find(kLibrary) != std::string::npos;
  }
  return known->second;
}

std::optional<AllocatorEvent> AllocatorEvents::of(const CallRecord& record,
                                                  std::span<const uint64_t> values) {
  if (record.call >= forms_.size() || !forms_[record.call].act || record.enter_lost ||
      !record.returned || (!forms_[record.call].of_anybody && !is_pytorchs(record))) {
    return std::nullopt;
  }
  const Form& form = forms_[record.call];
  const auto value = [&](int place) {
    return place < 0 || static_cast<size_t>(place) >= values.size() ? 0 : values[size_t(place)];
  };
  AllocatorEvent event{
      .act = *form.act, .time = record.enter, .thread = record.thread, .stack = record.stack};
  event.device = allocator_device(trace_, record.device);
  event.address = value(form.address);
  event.bytes = value(form.bytes);
  event.piece = form.piece;
  event.stream = static_cast<uint32_t>(value(form.stream));
  if (event.act == AllocatorAct::kFailed) {
    return event;
  }
  if (record.moment) {
    event.has_totals = event.address != 0;
    event.allocated = value(form.allocated);
    event.reserved = value(form.reserved);
    if (static_cast<int64_t>(event.bytes) < 0) {
      event.act = AllocatorAct::kGive;
      event.bytes = uint64_t{0} - event.bytes;
    }
    return event.address != 0 && event.bytes != 0 ? std::optional(event) : std::nullopt;
  }
  if (event.act == AllocatorAct::kMap && record.result == kOutOfMemory) {
    event.act = AllocatorAct::kRefused;
    return event;
  }
  const bool of_memory = form.address >= 0 && event.address != 0;  // cuMemCreate gives a handle
  return record.result == 0 && of_memory ? std::optional(event) : std::nullopt;
}

}  // namespace traintrace
