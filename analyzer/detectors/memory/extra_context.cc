// A rank has memory, or a context, on the device of another rank.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/memory_use.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

using Devices = std::map<std::string, std::map<int, size_t>>;  // numbering, device: whose it is

Devices devices_of(const Run& run) {
  Devices devices;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    if (const auto device = own_device(run.processes[i])) {
      devices[device_numbering(run.processes[i])].try_emplace(*device, i);
    }
  }
  return devices;
}

// Else what is taken for its own may not be.
bool works_on(const ProcessTrace& trace, const ProcessMemory& memory, int device) {
  return std::any_of(memory.live.begin(), memory.live.end(),
                     [&](const BlockGroup& group) { return group.device == device; }) ||
         std::any_of(trace.events.begin(), trace.events.end(), [&](const CallRecord& event) {
           const CallSchema* schema = schema_of(trace, event.call);
           return schema != nullptr && schema->kind == "launch" && event.device == device;
         });
}

// Memory that it has there, or the first call that needed a context there.
std::optional<MemorySite> site_on(const Run& run, size_t process, const ProcessMemory& memory,
                                  int device) {
  const ProcessTrace& trace = run.processes[process];
  MemorySite site;
  site.process = process;
  site.rank = rank_on(run, process, device);
  for (const BlockGroup& group : memory.live) {
    if (group.device == device &&
        (group.kind == MemoryKind::kDevice || group.kind == MemoryKind::kArray)) {
      site.stack = site.count == 0 ? group.stack : site.stack;
      site.bytes = sum_of(site.bytes, group.bytes);
      site.count += group.blocks.size();
    }
  }
  if (site.count != 0) {
    site.text = fmt::format("{} bytes in {} blocks on device {}, most of them", site.bytes,
                            site.count, device);
    return site;
  }
  const auto uses = first_uses_of_devices(trace);
  const auto first = uses.find(device);
  if (first == uses.end()) {
    return std::nullopt;
  }
  const CallRecord& use = *first->second;
  site.stack = use.stack;
  site.text = fmt::format("a context on device {}, needed by {} at {},", device,
                          call_name(trace, use.call), run_time(run, use.enter));
  return site;
}

}  // namespace

std::vector<Finding> find_extra_contexts(const Run& run, const RunMemory& memory) {
  const Devices devices = devices_of(run);
  std::vector<MemorySite> sites;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const auto own = own_device(run.processes[i]);
    const auto others = devices.find(device_numbering(run.processes[i]));
    if (!own || others == devices.end() || !works_on(run.processes[i], memory.processes[i], *own)) {
      continue;
    }
    for (const auto& [device, owner] : others->second) {
      const auto site =
          device != *own ? site_on(run, i, memory.processes[i], device) : std::nullopt;
      if (site && site->rank.value >= 0) {
        sites.push_back(*site);
        sites.back().text = fmt::format("works on device {} and has {}", *own, site->text);
      }
    }
  }
  if (sites.empty()) {
    return {};
  }
  Finding finding = memory_finding(run, "memory.extra-context", sites);
  finding.certainty = Certainty::kLikely;
  finding.title =
      fmt::format("{} {} something on the device of another rank{}", ranks_text(finding.culprits),
                  finding.culprits.size() == 1 ? "has" : "have",
                  finding.where.empty() ? "" : ", at " + place_text(finding.where.front()));
  finding.advice =
      "set the device before anything else (torch.cuda.set_device(local_rank)), and load "
      "checkpoints with map_location; each context costs hundreds of MiB there";
  return {finding};
}

}  // namespace traintrace
