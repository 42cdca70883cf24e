// What NCCL, cuBLAS and their like hold for themselves.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/allocator_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/memory/holders/nccl_memory.h"
#include "analyzer/memory/holders/owner_text.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Of the devices of a process, as the job asked for it; 0: it never did.
uint64_t device_bytes(const ProcessTrace& trace) {
  uint64_t total = 0;
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    total = failure.total != 0 ? failure.total : total;
  }
  for (const CallRecord& event : trace.events) {
    const CallSchema* schema = schema_of(trace, event.call);
    if (schema == nullptr || schema->kind != "memory-info" || event.result != 0) {
      continue;
    }
    for (size_t i = 0; i < event.value_count && i < schema->fields.size(); ++i) {
      const uint64_t value = trace.values_of(event)[i];
      total = schema->fields[i].name == "total" && value != 0 ? value : total;
    }
  }
  return total;
}

// By device, owner, and the call of NCCL inside which it was had.
using LibraryHolders = std::map<std::tuple<int, std::string, std::string>, MemorySite>;

struct LibraryHolder {
  std::string name, call;
};
LibraryHolder holder_of(const ProcessTrace& trace, const NcclCalls& nccl, const LiveBlock& block) {
  if (block.owner != Owner::kNccl) {
    return {owner_text(trace, block), ""};
  }
  const NcclUse use = nccl.at(block.time, block.device, block.address);
  return {nccl_name(trace, use.communicator), use.call};
}

// On devices of ranks.
std::vector<LiveBlock> blocks_of_libraries(const Run& run, size_t process) {
  const ProcessTrace& trace = run.processes[process];
  std::map<uint32_t, Owner> owners;
  std::vector<LiveBlock> blocks;
  for (const AllocationText& allocation : trace.allocations) {
    const auto kind = kind_of_call(call_name(trace, allocation.call));
    const auto [owner, is_new] = owners.try_emplace(allocation.stack, Owner::kUnknown);
    owner->second = is_new ? owner_of(trace, allocation.stack) : owner->second;
    const int device = allocation.device == format::kNoDevice ? -1 : allocation.device;
    if (!kind || !on_device(*kind) || !is_library(owner->second) ||
        rank_on(run, process, device).value < 0) {
      continue;
    }
    LiveBlock& block = blocks.emplace_back();
    block.address = allocation.address;
    block.bytes = allocation.bytes;
    block.time = allocation.time;
    block.stack = allocation.stack;
    block.device = device;
    block.owner = owner->second;
  }
  return blocks;
}

LibraryHolders holders_in(const Run& run, size_t process) {
  const ProcessTrace& trace = run.processes[process];
  const std::vector<LiveBlock> blocks = blocks_of_libraries(run, process);
  if (blocks.empty()) {
    return {};
  }
  std::vector<TimeNs> times;
  for (const LiveBlock& block : blocks) {
    if (block.owner == Owner::kNccl) {
      times.push_back(block.time);
    }
  }
  const NcclCalls nccl(trace, std::move(times));
  LibraryHolders holders;
  for (const LiveBlock& block : blocks) {
    const LibraryHolder holder = holder_of(trace, nccl, block);
    MemorySite& site = holders[{block.device, holder.name, holder.call}];
    if (site.count++ == 0) {
      site.text = fmt::format("{}, since {}{}{},", holder.name, run_time(run, block.time),
                              holder.call.empty() ? "" : ", inside ", holder.call);
      site.stack = block.stack;
    }
    site.rank = rank_on(run, process, block.device);
    site.process = process;
    site.bytes = sum_of(site.bytes, block.bytes);
  }
  return holders;
}

// Of one device.
uint64_t most_on_a_device(const LibraryHolders& holders) {
  std::map<int, uint64_t> bytes;
  uint64_t most = 0;
  for (const auto& [key, site] : holders) {
    uint64_t& sum = bytes[std::get<int>(key)];
    sum = sum_of(sum, site.bytes);
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

std::vector<Finding> find_library_memory(const Run& run, const RunMemory&) {
  std::vector<MemorySite> sites;
  bool large = false;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const LibraryHolders holders = holders_in(run, i);
    const uint64_t bytes = most_on_a_device(holders);
    if (bytes < kMuchMemory) {
      continue;
    }
    const uint64_t total = device_bytes(run.processes[i]);
    large = large || (total != 0 && is_much(bytes, total));
    for (const auto& [key, site] : holders) {
      sites.push_back(site);
      sites.back().text = fmt::format("{} bytes held by {} allocated", site.bytes, site.text);
    }
  }
  if (sites.empty()) {
    return {};
  }
  Finding finding = memory_finding(run, "memory.library", sites);
  finding.certainty = Certainty::kLikely;
  finding.title = fmt::format("libraries hold up to {} bytes of the memory of {}",
                              finding.values.front().second, ranks_text(finding.culprits));
  if (!large) {
    finding.severity = Severity::kInfo;
    finding.culprits.clear();
  }
  finding.advice =
      "fewer communicators or channels, smaller NCCL_BUFFSIZE or "
      "CUBLAS_WORKSPACE_CONFIG, if the memory is wanted elsewhere";
  return {finding};
}

}  // namespace traintrace
