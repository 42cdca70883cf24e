#include "analyzer/memory/device_peaks.h"

#include <algorithm>
#include <map>

#include "analyzer/memory/memory_life.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

const LossText* loss_that(const ProcessTrace& trace, bool (*counts)(const LossText&)) {
  const auto found =
      std::find_if(trace.losses.begin(), trace.losses.end(),
                   [&](const LossText& loss) { return loss.count != 0 && counts(loss); });
  return found == trace.losses.end() ? nullptr : &*found;
}

bool may_hide_a_call(const LossText& loss) {
  return loss.severity == "warning";
}
bool may_hide_memory(const LossText& loss) {
  return may_hide_a_call(loss) || loss.stat == "ring-overwritten" || loss.stat == "unknown-free";
}

// Of anybody's peaks.
std::string why_unknown(const ProcessTrace& trace, bool (*counts)(const LossText&)) {
  // Other tools say what they saw, and not whether that was all.
  if (!trace.facts.contains("traintrace-version")) {
    return "it was not recorded by traintrace";
  }
  if (!trace.errors.empty()) {
    return "a part of its trace cannot be read";
  }
  const LossText* const loss = loss_that(trace, counts);
  return loss == nullptr ? "" : loss->stat;
}

// What was reported is not all that was in use.
bool misses_reports(const TensorDeviceText& device) {
  return device.before != 0 || device.peak_allocated == 0 ||
         static_cast<uint64_t>(device.change) != device.allocated;
}

DevicePeaks peaks_of_pytorch(const ProcessTrace& trace) {
  DevicePeaks peaks;
  peaks.unknown = why_unknown(trace, may_hide_a_call);
  for (const TensorDeviceText& device : trace.tensor_devices) {
    if (peaks.unknown.empty() && misses_reports(device)) {
      peaks.unknown = "PyTorch's allocator had memory in use that it did not report";
    }
    DevicePeak& peak = peaks.devices.emplace_back();
    peak.device = device.device;
    if (peaks.unknown.empty()) {
      peak.allocated = device.peak_allocated;
      peak.reserved = device.peak_reserved;
    }
  }
  return peaks;
}

bool frees_everything(const ProcessTrace& trace) {
  std::vector<bool> frees;  // by call
  for (const CallSchema& schema : trace.calls) {
    frees.push_back(schema.name == "cudaDeviceReset" || schema.name.starts_with("cuCtxDestroy") ||
                    schema.name.starts_with("cuDevicePrimaryCtxReset"));
  }
  return std::any_of(trace.events.begin(), trace.events.end(), [&](const CallRecord& event) {
    return event.call < frees.size() && frees[event.call];
  });
}

// Of a trace as text some may have been left out.
bool has_all_records(const ProcessTrace& trace) {
  uint64_t written = 0;
  for (const ThreadText& thread : trace.threads) {
    written = sum_of(written, thread.events);
  }
  uint64_t read = 0;
  for (const CallRecord& event : trace.events) {
    const bool both = !event.moment && !event.enter_lost && event.returned;
    read += both ? 2 : 1;
  }
  return read >= written && written != 0;
}

std::string why_unknown(const ProcessTrace& trace, const MemoryLife& life) {
  if (std::string why = why_unknown(trace, may_hide_memory); !why.empty()) {
    return why;
  }
  const auto calls = trace.facts.find("setting.TRAINTRACE_CALLS");
  if ((calls != trace.facts.end() && calls->second != "*") || !has_all_records(trace)) {
    return "not all calls were recorded";
  }
  if (!life.before.empty()) {
    return "memory was in use before the first record";
  }
  return frees_everything(trace) ? "a context was destroyed, with the memory in it" : "";
}

// A pool holds more than it hands out.
bool is_pooled(const std::string& call) {
  return call.find("Async") != call.npos || call.find("FromPool") != call.npos;
}

struct Use {
  uint64_t now = 0, most = 0;
  bool pooled = false;
};

std::map<int, Use> uses_of(const ProcessTrace& trace, const MemoryLife& life) {
  std::map<int, Use> uses;
  for (const MemoryEvent& event : life.events) {
    const LiveBlock& block = event.block;
    if (on_device(block.kind) && is_in_use(block)) {
      Use& use = uses[block.device];
      use.now += event.taken ? block.bytes : uint64_t{0} - block.bytes;
      use.most = std::max(use.most, use.now);
      use.pooled = use.pooled || is_pooled(call_name(trace, block.call));
    }
  }
  return uses;
}

DevicePeaks peaks_of_calls(const ProcessTrace& trace) {
  const MemoryLife life = memory_life(trace);
  const std::map<int, Use> uses = uses_of(trace, life);
  DevicePeaks peaks;
  peaks.unknown = why_unknown(trace, life);
  if (peaks.unknown.empty() && uses.contains(-1)) {
    peaks.unknown = "on which device its memory is cannot be told";
  }
  for (const auto& [device, use] : uses) {
    if (device < 0) {
      continue;
    }
    DevicePeak& peak = peaks.devices.emplace_back();
    peak.device = device;
    if (peaks.unknown.empty()) {
      peak.allocated = use.most;
      peak.reserved = use.pooled ? std::nullopt : std::optional(use.most);
    }
  }
  return peaks;
}

}  // namespace

bool peaks_need_events(const ProcessTrace& trace) {
  return trace.tensor_devices.empty();
}

DevicePeaks device_peaks(const ProcessTrace& trace) {
  return peaks_need_events(trace) ? peaks_of_calls(trace) : peaks_of_pytorch(trace);
}

}  // namespace traintrace
