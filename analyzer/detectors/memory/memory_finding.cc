#include "analyzer/detectors/memory/memory_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/launch_facts.h"

namespace traintrace {
namespace {

std::string sizes_text(const BlockGroup& group) {
  const uint64_t first = group.blocks.front().second;
  const bool equal = std::all_of(group.blocks.begin(), group.blocks.end(),
                                 [&](const auto& block) { return block.second == first; });
  const size_t count = group.blocks.size();
  return count == 1 ? fmt::format("{} bytes", first)
         : equal    ? fmt::format("{} x {} bytes", count, first)
                    : fmt::format("{} blocks, {} bytes", count, group.bytes);
}

Rank rank_with_most(const std::vector<MemorySite>& sites) {
  std::map<Rank, uint64_t> bytes;
  for (const MemorySite& site : sites) {
    bytes[site.rank] = sum_of(bytes[site.rank], site.bytes);
  }
  return std::max_element(bytes.begin(), bytes.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// Where it was allocated, or what the job called before.
std::optional<CodePlace> user_place_of(const Run& run, const MemorySite& site) {
  return user_place(run.processes[site.process], site.rank,
                    site.after != 0 ? site.after : site.stack);
}

void add_places(const Run& run, const std::vector<MemorySite>& sites, Finding& finding) {
  for (const MemorySite& site : sites) {
    const auto place = user_place_of(run, site);
    const auto same = [&](const CodePlace& other) {
      return other.file == place->file && other.line == place->line &&
             other.function == place->function;
    };
    if (place && finding.where.size() < kEvidenceLines &&
        std::none_of(finding.where.begin(), finding.where.end(), same)) {
      finding.where.push_back(*place);
    }
  }
}

}  // namespace

std::optional<int> own_device(const ProcessTrace& trace) {
  std::set<int> devices;
  for (const CommunicatorText& communicator : trace.communicators) {
    if (communicator.device >= 0) {
      devices.insert(communicator.device);
    }
  }
  return devices.size() == 1 ? std::optional(*devices.begin()) : std::nullopt;
}

std::string device_numbering(const ProcessTrace& trace) {
  return fmt::format("{}\n{}", trace.host, environment(trace, "CUDA_VISIBLE_DEVICES"));
}

Ranks owners_of_device(const Run& run, size_t process, int device) {
  const std::string numbering = device_numbering(run.processes[process]);
  Ranks owners;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    if (state.process != process && own_device(trace) == device &&
        device_numbering(trace) == numbering) {
      insert(owners, state.rank);
    }
  }
  return owners;
}

std::string other_device_text(const Run& run, size_t process, int device) {
  const std::optional<int> own = own_device(run.processes[process]);
  if (!own || device < 0 || *own == device) {
    return "";
  }
  const Ranks owners = owners_of_device(run, process, device);
  return fmt::format(" on GPU {}, which is not its own (GPU {}){}", device, *own,
                     owners.empty() ? "" : " but that of " + ranks_text(owners));
}

Rank rank_on(const Run& run, size_t process, int device) {
  const RankState* found = nullptr;
  for (const RankState* const state : states_of(run, process)) {
    if (found == nullptr || state->device == device) {
      found = state;
    }
  }
  return found == nullptr ? Rank{-1} : found->rank;
}

MemorySite site_of(const Run& run, size_t process, const BlockGroup& group) {
  MemorySite site;
  site.rank = rank_on(run, process, group.device);
  site.process = process;
  site.stack = group.stack;
  site.bytes = group.bytes;
  site.count = group.blocks.size();
  site.text = fmt::format("{} of {}", sizes_text(group), name_of(group.kind));
  if (group.kind != MemoryKind::kTensor) {
    site.text += ", " + call_name(run.processes[process], group.call);
  }
  site.text += other_device_text(run, process, group.device);
  return site;
}

uint64_t bytes_of(const std::vector<MemorySite>& sites, Rank rank) {
  uint64_t bytes = 0;
  for (const MemorySite& site : sites) {
    bytes = site.rank == rank ? sum_of(bytes, site.bytes) : bytes;
  }
  return bytes;
}

int64_t signed_bytes(uint64_t bytes) {
  return static_cast<int64_t>(
      std::min<uint64_t>(bytes, uint64_t{std::numeric_limits<int64_t>::max()}));
}

std::string place_of_site(const Run& run, const MemorySite& site) {
  const auto place = user_place_of(run, site);
  return place ? place_text(*place) : "an unknown place";
}

std::string at_or_after(const MemorySite& site) {
  return site.after != 0 ? "by autograd's threads after" : "at";
}

bool segments_expand(const ProcessTrace& trace) {
  std::string settings(environment(trace, "PYTORCH_CUDA_ALLOC_CONF"));
  settings += environment(trace, "PYTORCH_ALLOC_CONF");
  return settings.find("expandable_segments:True") != std::string::npos;
}

std::string segments_advice(const ProcessTrace& trace) {
  return segments_expand(trace)
             ? "segments are expandable already: let sizes vary less from step to step"
             : "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, with which free pieces "
               "become one";
}

bool memory_is_whole(const ProcessTrace& trace) {
  return trace.errors.empty() &&
         std::none_of(trace.losses.begin(), trace.losses.end(), [](const LossText& loss) {
           return loss.count != 0 && loss.severity == "warning";
         });
}

Finding memory_finding(const Run& run, std::string_view code, std::vector<MemorySite> sites) {
  std::sort(sites.begin(), sites.end(), [](const MemorySite& a, const MemorySite& b) {
    return std::tuple(~a.bytes, a.rank, a.text, a.stack) <
           std::tuple(~b.bytes, b.rank, b.text, b.stack);
  });
  Finding finding;
  finding.code = code;
  finding.severity = catalogue_row(code)->severity;
  const Rank most = rank_with_most(sites);
  uint64_t count = 0;
  for (const MemorySite& site : sites) {
    insert(finding.culprits, site.rank);
    count += site.rank == most ? site.count : 0;
    if (finding.evidence.size() < kEvidenceLines) {
      finding.evidence.push_back(fmt::format("rank {}: {} {} {}", site.rank.value, site.text,
                                             at_or_after(site), place_of_site(run, site)));
    }
  }
  if (!std::all_of(run.processes.begin(), run.processes.end(), memory_is_whole)) {
    finding.certainty = Certainty::kLikely;
  }
  if (sites.size() > kEvidenceLines) {
    finding.evidence.push_back(fmt::format("and {} more", sites.size() - kEvidenceLines));
  }
  finding.sides = {finding.culprits};
  finding.values = {{"bytes", signed_bytes(bytes_of(sites, most))},
                    {"block_count", static_cast<int64_t>(count)}};
  add_places(run, sites, finding);
  return finding;
}

}  // namespace traintrace
