// An allocation failed, and that was the end of the process: which memory was missing.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/allocator/caching_rules.h"
#include "analyzer/memory/allocator/shortage.h"
#include "analyzer/memory/growth/growth.h"
#include "analyzer/memory/growth/optimizer_state.h"
#include "analyzer/memory/holders/device_users.h"
#include "analyzer/memory/holders/holders.h"
#include "analyzer/memory/holders/who_held.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/model/waiting/hang_cause.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

struct Name {
  ShortageKind kind;
  std::string_view code;
  const char* reason;
};
constexpr Name kNames[] = {
    {ShortageKind::kFragmentation, "memory.fragmentation-oom",
     "enough was free in total, but no piece was large enough"},
    {ShortageKind::kPendingFree, "memory.pending-free-oom",
     "a free piece was large enough, but waits for another stream, or belongs to one"},
    {ShortageKind::kNeighbour, "memory.neighbour-oom",
     "without what other processes hold on the device it would have fit"},
    {ShortageKind::kLibrary, "memory.library-oom",
     "without what libraries such as NCCL hold it would have fit"},
    {ShortageKind::kLimit, "memory.capacity-oom",
     "the device had room, but the job's own limit was reached"},
    {ShortageKind::kCache, "memory.capacity-oom",
     "PyTorch's allocator holds enough that is not in use"},
    {ShortageKind::kCapacity, "memory.capacity-oom", "the job needs more than the device has"},
    {ShortageKind::kUnknown, "memory.capacity-oom",
     "who has the memory of the device was not recorded"},
};

const Name& name_for(ShortageKind kind) {
  return *std::find_if(std::begin(kNames), std::end(kNames),
                       [&](const Name& name) { return name.kind == kind; });
}

// "fits", or how much is missing.
std::string short_text(uint64_t wanted, uint64_t room) {
  return wanted <= room ? "it would fit" : fmt::format("still {} bytes short", wanted - room);
}

// "NCCL", "NCCL (48 bytes) and cuBLAS (16 bytes)", those with most first.
std::string libraries_text(const Shortage& shortage) {
  std::vector<std::pair<uint64_t, std::string>> all;
  for (const auto& [name, bytes] : shortage.by_library) {
    all.emplace_back(bytes, name);
  }
  if (all.empty()) {
    return "libraries such as NCCL";
  }
  std::sort(all.rbegin(), all.rend());
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < all.size() ? ", " : " and ") + all[i].second;
    text += all.size() == 1 ? "" : fmt::format(" ({} bytes)", all[i].first);
  }
  return text;
}

// In PyTorch's allocator, which serves a request from one piece of the pool for such sizes.
void add_cache_rungs(const Shortage& shortage, std::vector<std::string>& lines) {
  const uint64_t wanted = shortage.failure->bytes;
  if (shortage.idle && *shortage.idle == 0) {
    return;
  }
  if (!shortage.holes) {
    lines.push_back(shortage.idle
                        ? fmt::format("unused in PyTorch's allocator, {} bytes: in which pieces is "
                                      "not known",
                                      *shortage.idle)
                        : "unused in PyTorch's allocator: not known");
    return;
  }
  const char* const pool = caching::is_small(wanted) ? "small" : "large";
  if (*shortage.holes == 0) {
    lines.push_back(
        fmt::format("unused in PyTorch's allocator, {} bytes: none where {} requests are served",
                    shortage.idle.value_or(0), pool));
    return;
  }
  lines.push_back(fmt::format(
      "unused in PyTorch's allocator, {} bytes; {} bytes of them where {} requests are served, the "
      "largest piece {} bytes; joined, and with what the device has free: {}",
      shortage.idle.value_or(0), *shortage.holes, pool, shortage.largest_idle.value_or(0),
      short_text(wanted, sum_of(*shortage.holes, shortage.free.value_or(0)))));
}

// PyTorch's allocator does not tell its limit.
std::vector<std::string> limit_lines(const Shortage& shortage) {
  const OutOfMemoryText& failure = *shortage.failure;
  return {
      fmt::format("limit: PyTorch's allocator may hold less than {} bytes: it held {} bytes and "
                  "would have taken {} bytes more (set_per_process_memory_fraction)",
                  sum_of(failure.reserved, shortage.segment), failure.reserved, shortage.segment)};
}

// Enough was free, but not in one piece.
std::vector<std::string> piece_lines(const Shortage& shortage) {
  const OutOfMemoryText& failure = *shortage.failure;
  const uint64_t free = shortage.free.value_or(0);
  const std::optional<uint64_t> cached = shortage.holes ? shortage.holes : shortage.idle;
  std::string where;
  if (failure.reserved != 0 && cached) {
    where = fmt::format("{} bytes of it in PyTorch's allocator, the largest piece {}; ", *cached,
                        shortage.largest_idle ? fmt::format("{} bytes", *shortage.largest_idle)
                                              : std::string("not known"));
  }
  return {
      fmt::format("request: {} bytes; free in total: {} bytes, but in pieces: {}{} bytes on the "
                  "device, where {} bytes in one piece were asked for",
                  failure.bytes, sum_of(failure.reserved == 0 ? 0 : cached.value_or(0), free),
                  where, free, shortage.segment),
      fmt::format("the job itself held {} bytes", shortage.job)};
}

// What would have had to be otherwise, one thing after the other, but for what changes nothing.
std::vector<std::string> ladder(const Shortage& shortage) {
  if (shortage.kind == ShortageKind::kLimit) {
    return limit_lines(shortage);
  }
  if (shortage.kind == ShortageKind::kFragmentation) {
    return piece_lines(shortage);
  }
  const uint64_t wanted = shortage.segment;
  std::vector<std::string> lines;
  uint64_t room = 0;
  bool has_rung = false;
  const auto rung = [&](const char* what, const std::optional<uint64_t>& more) {
    if (more && *more == 0 && has_rung) {
      return;
    }
    has_rung = true;
    room = sum_of(room, more.value_or(0));
    lines.push_back(more ? fmt::format("{}, {} bytes: {}", what, *more, short_text(wanted, room))
                         : fmt::format("{}: not known", what));
  };
  if (shortage.failure->reserved != 0) {
    add_cache_rungs(shortage, lines);
    if (wanted != shortage.failure->bytes) {
      lines.push_back(fmt::format("asked of the device for it: {} bytes", wanted));
    }
  }
  if (shortage.free.value_or(0) >= wanted && wanted != 0) {  // and yet it was refused
    has_rung = true;
    room = *shortage.free;
    lines.push_back(fmt::format(
        "free on the device, {} bytes: enough in total, but in no one piece", *shortage.free));
  } else if (shortage.free || !shortage.total) {
    rung("free on the device", shortage.free);
  }
  if (shortage.free || !shortage.total) {
    rung(shortage.in_driver_pool
             ? "and without other processes, CUDA contexts and the driver's memory pool"
             : "and without other processes and CUDA contexts",
         shortage.others);
  } else {
    rung("on a device that nothing else uses", room_alone(shortage));
  }
  if (shortage.releasable) {
    rung("and without what PyTorch's allocator holds in segments that nothing uses",
         shortage.releasable);
  }
  if (!shortage.knows_device) {
    lines.emplace_back("what this process held there: not known, it has memory on several devices");
    return lines;
  }
  const std::string libraries = "and without " + libraries_text(shortage);
  rung(libraries.c_str(), shortage.libraries);
  lines.push_back(fmt::format("the job itself held {} bytes", shortage.job));
  return lines;
}

// Of the line that holds most beside weights and optimizers, where it is no activation: without
// that it would have fitted.
std::optional<std::string> advice_about_holder(const ProcessTrace& trace,
                                               const Shortage& shortage) {
  if (shortage.failure->held.empty() || !has_events(trace)) {
    return std::nullopt;
  }
  const MemoryHolder* most = nullptr;
  const std::vector<MemoryHolder> holders = holders_at(trace, history_of(trace), *shortage.failure);
  for (const MemoryHolder& holder : holders) {
    const bool is_state =
        holder.role == MemoryRole::kState || holder.role == MemoryRole::kOptimizer;
    most = most == nullptr && !is_state ? &holder : most;
  }
  const uint64_t wanted = std::max(shortage.segment, shortage.failure->bytes);
  if (most == nullptr || most->place.empty() || most->bytes < wanted) {
    return std::nullopt;
  }
  const std::string place =
      most->place + (most->caller.empty() ? "" : ", called from " + most->caller);
  if (is_left_by_steps(*most)) {
    return fmt::format(
        "see what still refers to the memory of {}: it kept some of each of {} steps; if that is "
        "meant, a smaller batch, or more ranks to share the state",
        place, most->steps.size());
  }
  return most->role == MemoryRole::kNew
             ? std::optional(fmt::format(
                   "free what {} makes as soon as it is used, or keep it on the host (.cpu()): no "
                   "step before made any; let go of an old model before a new one is built",
                   place))
             : std::nullopt;
}

// Of the processes beside it on the device that have most of what others hold.
struct Neighbours {
  std::string who;   // "process 4242, which was not recorded, holds"; empty: it is not known
  std::string pids;  // "4242", "4242,4243"
  uint64_t bytes = 0;
  bool of_job = false;  // one of them is another rank
};
Neighbours neighbours_of(const DeviceUsers& users, const Shortage& shortage) {
  constexpr size_t kMost = 3;
  constexpr uint64_t kShare = 8;  // of less than one in so many nothing is said
  Neighbours found;
  size_t count = 0;
  for (const DeviceUser& user : users.others) {
    if (users.names_own && count < kMost && user.bytes &&
        *user.bytes >= shortage.others.value_or(0) / kShare) {
      found.who = count == 0 ? user_text(user) + ", holds"
                             : fmt::format("{} other processes, PIDs {},{}, hold", count + 1,
                                           found.pids, user.pid);
      found.pids += fmt::format("{}{}", count == 0 ? "" : ",", user.pid);
      found.bytes = sum_of(found.bytes, *user.bytes);
      found.of_job = found.of_job || user.rank;
      ++count;
    }
  }
  return found;
}

std::string advice_about_neighbour(const ProcessTrace& trace, const Shortage& shortage,
                                   const Neighbours& neighbours) {
  if (neighbours.of_job) {
    return "give each rank a device of its own before anything else: "
           "torch.cuda.set_device(local_rank)";
  }
  return (neighbours.pids.empty()
              ? std::string(
                    "nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory "
                    "--format=csv on that host names the processes on the device: end them, or run "
                    "elsewhere (the trace has no names of processes that were not recorded)")
              : fmt::format("ps -o pid,user,lstart,args -p {} on host {} says what it is: end it, "
                            "or run elsewhere",
                            neighbours.pids, trace.host)) +
         (would_fit_joined(shortage) ? "; besides, " + segments_advice(trace) : "");
}

std::string advice_for(const ProcessTrace& trace, const Shortage& shortage,
                       const Neighbours& neighbours) {
  constexpr uint64_t kMostOfDevice = 2;  // one in so many
  switch (shortage.kind) {
    case ShortageKind::kFragmentation:
      return shortage.failure->reserved == 0 ? "allocate what is large and lives long first"
                                             : segments_advice(trace);
    case ShortageKind::kPendingFree:
      return "let the stream that still uses freed memory finish first, or free on the stream that "
             "allocated";
    case ShortageKind::kNeighbour:
      return advice_about_neighbour(trace, shortage, neighbours);
    case ShortageKind::kLibrary:
      return "fewer communicators or channels, smaller NCCL_BUFFSIZE, smaller workspaces";
    case ShortageKind::kCache:
      return "call torch.cuda.empty_cache() before it: PyTorch's allocator gives back what is not "
             "in "
             "use; or leave room for others with torch.cuda.set_per_process_memory_fraction()";
    case ShortageKind::kLimit:
      return "raise the limit (torch.cuda.set_per_process_memory_fraction), or use less";
    default:
      if (first_optimizer_step(trace, *shortage.failure)) {
        return "the first step of an optimizer allocates its state (Adam: two tensors for each "
               "parameter): share it among more ranks (FSDP, ZeroRedundancyOptimizer), or choose "
               "an "
               "optimizer that keeps less";
      }
      if (shortage.total && shortage.failure->bytes >= *shortage.total / kMostOfDevice) {
        return fmt::format("ask for less at once: this request alone is {} % of the device",
                           shortage.failure->bytes / std::max<uint64_t>(*shortage.total / 100, 1));
      }
      return advice_about_holder(trace, shortage)
          .value_or(
              "use a smaller batch, activation checkpointing, or more ranks to share the state");
  }
}

// With the figure that matters most.
std::string reason_text(const Shortage& shortage, const Name& name, const Neighbours& neighbours) {
  const uint64_t free = shortage.free.value_or(0);
  switch (shortage.kind) {
    case ShortageKind::kFragmentation: {
      const std::optional<uint64_t> cached = shortage.holes ? shortage.holes : shortage.idle;
      const uint64_t all = sum_of(shortage.failure->reserved == 0 ? 0 : cached.value_or(0), free);
      return fmt::format("{} bytes were free in total, but no piece was large enough", all);
    }
    case ShortageKind::kNeighbour:
      return !shortage.others ? name.reason
             : neighbours.who.empty()
                 ? fmt::format(
                       "other processes hold {} bytes of the {} bytes of the device; "
                       "without them it would have fit",
                       *shortage.others, shortage.total.value_or(0))
                 : fmt::format(
                       "{} {} bytes of the {} bytes of the device; without that it would "
                       "have fit",
                       neighbours.who, neighbours.bytes, shortage.total.value_or(0));
    case ShortageKind::kLibrary:
      return fmt::format("{} hold{} {} bytes; without that it would have fit",
                         libraries_text(shortage), shortage.by_library.size() == 1 ? "s" : "",
                         shortage.libraries);
    case ShortageKind::kCapacity:
      return shortage.free && *shortage.free < shortage.segment
                 ? fmt::format("{}; {} bytes were free", name.reason, free)
                 : name.reason;
    default:
      return name.reason;
  }
}

// A hang that it caused has a finding of its own.
bool is_told_already(const Run& run, Rank rank) {
  return std::any_of(run.waits.hangs.begin(), run.waits.hangs.end(), [&](const Hang& hang) {
    return contains(hang.roots, rank) || contains(hang.victims, rank);
  });
}

std::vector<std::pair<std::string, int64_t>> values_of(const Shortage& shortage) {
  const bool counted = is_counted(*shortage.failure) && shortage.knows_device;
  const std::pair<const char*, std::optional<uint64_t>> all[] = {
      {"requested_bytes", shortage.failure->bytes},
      {"segment_bytes", counted && shortage.segment != shortage.failure->bytes
                            ? std::optional(shortage.segment)
                            : std::nullopt},
      {"job_bytes", counted ? std::optional(shortage.job) : std::nullopt},
      {"library_bytes", counted ? std::optional(shortage.libraries) : std::nullopt},
      {"free_bytes", shortage.free},
      {"total_bytes", shortage.total},
      {"other_bytes", shortage.others},
      {"idle_bytes", shortage.idle},
  };
  std::vector<std::pair<std::string, int64_t>> values;
  for (const auto& [key, value] : all) {
    if (value) {
      values.emplace_back(key, signed_bytes(*value));
    }
  }
  return values;
}

// What the job had let grow, step by step, on the device that ran out.
struct Grown {
  bool is_missing = false;  // without it the request would have fitted
  std::string place;        // of most of it; empty: no line of the job
};
Grown grown_until(const ProcessTrace& trace, Rank rank, const MemoryHistory& history,
                  const Shortage& shortage) {
  const OutOfMemoryText& failure = *shortage.failure;
  uint64_t grown = 0;
  uint64_t most = 0;
  uint32_t stack = 0;
  for (const auto& [group, growth] : GrowthJudge(trace, history).growing()) {
    const bool here = group.device < 0 || group.device == failure.device;
    if (!here || group.kind == MemoryKind::kPinned) {
      continue;
    }
    grown = sum_of(grown, growth.bytes);
    if (growth.bytes > most) {
      most = growth.bytes;
      stack = growth.after != 0 ? growth.after : group.stack;
    }
  }
  const auto place = user_place(trace, rank, stack);
  return {would_fit_without(shortage, grown), place ? place_text(*place) : ""};
}

// Then the leak is the root, and this its consequence.
void make_consequence(const Grown& grown, Finding& finding) {
  finding.code = "memory.capacity-oom";
  finding.certainty = Certainty::kLikely;
  finding.root = false;
  finding.advice = fmt::format("see memory.growth-leak: without what grows{} it would have fit",
                               grown.place.empty() ? "" : " at " + grown.place);
}

Finding finding_about(const Run& run, const RankState& state, const Shortage& shortage,
                      const MemoryHistory* history) {
  const ProcessTrace& trace = trace_of(run, state);
  const OutOfMemoryText& failure = *shortage.failure;
  const Name& name = name_for(shortage.kind);
  const Grown grown =
      history != nullptr ? grown_until(trace, state.rank, *history, shortage) : Grown();
  const Neighbours neighbours = neighbours_of(device_users(run, state, failure), shortage);
  Finding finding;
  finding.code = name.code;
  finding.certainty =
      shortage.kind == ShortageKind::kUnknown || shortage.kind == ShortageKind::kPendingFree
          ? Certainty::kPossible
          : Certainty::kLikely;
  const bool unclear = finding.certainty == Certainty::kPossible;
  // A program that asked for too much at its end, and ended with status 0, may have meant to.
  finding.severity = !exited_normally(run, state) ? Severity::kError
                     : unclear                    ? Severity::kInfo
                                                  : Severity::kWarning;
  finding.root = finding.severity != Severity::kInfo;
  if (!unclear) {
    finding.culprits = {state.rank};
  }
  finding.sides = {{state.rank}};
  const auto place = place_of_failure(trace, state.rank, failure);
  if (place) {
    finding.where = {place->place};
  }
  finding.title = fmt::format(
      "{} ran out of memory at {}, {} bytes wanted{}: {}", ranks_text({state.rank}),
      run_time(run, failure.time), failure.bytes,
      !place             ? ""
      : place->is_before ? " after " + place_text(place->place) + ", in a thread of autograd's"
                         : " at " + place_text(place->place),
      grown.is_missing ? "what grows with every step had taken the room"
                       : reason_text(shortage, name, neighbours));
  finding.values = values_of(shortage);
  finding.evidence = who_held(run, state, failure).lines;
  if (is_counted(failure)) {
    const std::vector<std::string> rungs = ladder(shortage);
    finding.evidence.insert(finding.evidence.end(), rungs.begin(), rungs.end());
  }
  finding.advice = advice_for(trace, shortage, neighbours);
  if (grown.is_missing) {
    make_consequence(grown, finding);
    finding.culprits = {state.rank};
  }
  return finding;
}

// What happened to several ranks is told once.
void add_to(std::vector<Finding>& findings, Finding finding) {
  const auto same = std::find_if(findings.begin(), findings.end(),
                                 [&](const Finding& other) { return other.code == finding.code; });
  if (same == findings.end()) {
    findings.push_back(std::move(finding));
    return;
  }
  for (const Rank rank : finding.culprits) {
    insert(same->culprits, rank);
  }
  insert(same->sides.front(), finding.sides.front().front());
  same->root = same->root || finding.root;
  same->severity = std::min(same->severity, finding.severity);
  same->certainty = std::max(same->certainty, finding.certainty);
  if (same->evidence.size() < kManyEvidenceLines) {
    same->evidence.push_back(finding.title);
  }
}

// A file about memory alone does not tell the process's end.  Who writes one because memory ran out
// does so before anything else is taken or given back.
bool is_last_word(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  const auto source = trace.facts.find("source");
  return source != trace.facts.end() &&
         (source->second == "torch-snapshot" || source->second == "rmm-csv") &&
         std::none_of(trace.events.begin(), trace.events.end(),
                      [&](const CallRecord& event) { return event.enter > failure.time; });
}

}  // namespace

std::vector<Finding> find_memory_failures(const Run& run, const RunMemory& memory) {
  std::vector<Finding> findings;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    const OutOfMemoryText* failure = fatal_failure(trace);
    const bool its_own =
        failure != nullptr && (state.device < 0 || failure->device == state.device);
    if (its_own && (has_ended(state) || is_last_word(trace, *failure)) &&
        !is_told_already(run, state.rank)) {
      const auto& history = memory.processes[state.process].history;
      add_to(findings, finding_about(run, state, shortage_of(trace, *failure),
                                     history ? &*history : nullptr));
    }
  }
  return findings;
}

}  // namespace traintrace
