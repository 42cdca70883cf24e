// Memory of one stack that becomes more with every step.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/allocator/shortage.h"
#include "analyzer/memory/growth/growth.h"
#include "analyzer/memory/holders/held_at.h"
#include "analyzer/memory/holders/who_held.h"
#include "analyzer/model/process/job_end.h"
#include "analyzer/model/waiting/hang_cause.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct GrowingSite {
  MemorySite site;
  Growth growth;
  int device = -1;  // -1: not known
  MemoryKind kind = MemoryKind::kDevice;
  bool scalars = false;
};

// Numbers that are kept for a plot, a few KiB a step at most.  The storage of a mean may be larger
// than it, as that of mean square errors is.
bool holds_scalars(const BlockGroup& group, const Growth& growth) {
  return group.kind == MemoryKind::kTensor && growth.bytes <= kLittleCopy * growth.pieces;
}

std::string since_text(const Run& run, const Growth& growth) {
  const std::string time = fmt::format(" since {}", run_time(run, growth.since));
  return growth.since_step > 0 ? fmt::format("{}, step {}", time, growth.since_step) : time;
}

MemorySite site_of_growth(const Run& run, size_t process, const BlockGroup& group,
                          const Growth& growth) {
  MemorySite site;
  site.rank = rank_on(run, process, group.device);
  site.process = process;
  site.stack = group.stack;
  site.after = growth.after;
  site.bytes = growth.bytes;
  site.count = growth.blocks;
  site.text = fmt::format(
      "{} bytes of {} in {} block{}{}, {} bytes a step{}{}{}", growth.bytes, name_of(group.kind),
      growth.blocks, growth.blocks == 1 ? "" : "s", other_device_text(run, process, group.device),
      growth.bytes_per_step, growth.last_bytes != 0 ? " on average" : "", since_text(run, growth),
      group.blocks.size() - group.let_go < growth.blocks ? ", some of it freed before the end,"
                                                         : "");
  return site;
}

std::vector<GrowingSite> growing_sites(const Run& run, const RunMemory& all) {
  std::vector<GrowingSite> found;
  for (size_t i = 0; i < all.processes.size(); ++i) {
    const ProcessMemory& memory = all.processes[i];
    if (!memory.history) {
      continue;
    }
    for (const auto& [group, growth] : GrowthJudge(run.processes[i], *memory.history).growing()) {
      if (rank_on(run, i, group.device).value >= 0) {
        found.push_back({site_of_growth(run, i, group, growth), growth, group.device, group.kind,
                         holds_scalars(group, growth)});
      }
    }
  }
  return found;
}

bool holds_numbers_alone(const GrowingSite& entry) {
  return entry.scalars && entry.growth.bytes <= kSmallestTensor * entry.growth.pieces;
}

// A loss and metrics that are kept for a plot: meant, as likely as not, while they are few and the
// memory lasts.  Of what a graph keeps more than one place has blocks that are larger than a
// number's.
bool are_lists_of_scalars(const Run& run, const std::vector<GrowingSite>& growing) {
  struct Kept {
    uint64_t bytes = 0, bytes_per_step = 0;
    size_t larger = 0;  // places of what is more than a number
    bool scalars = true;
  };
  std::map<size_t, Kept> kept;  // by process
  for (const GrowingSite& entry : growing) {
    Kept& all = kept[entry.site.process];
    all.bytes = sum_of(all.bytes, entry.growth.bytes);
    all.bytes_per_step = sum_of(all.bytes_per_step, entry.growth.bytes_per_step);
    all.larger += holds_numbers_alone(entry) ? 0 : 1;
    all.scalars = all.scalars && entry.scalars;
  }
  return std::all_of(kept.begin(), kept.end(), [&](const auto& entry) {
    const auto& [process, all] = entry;
    return all.scalars && all.larger <= 1 && all.bytes < kMuchMemory &&
           all.bytes_per_step <= kNumbersPerStep * kSmallestTensor &&
           fatal_failure(run.processes[process]) == nullptr;
  });
}

// "by 4096 bytes"; where that becomes more and more "by more each time, from 4096 bytes in step 2
// to 65536 bytes in step 17".
std::string growth_text(const std::vector<GrowingSite>& growing, Rank rank, uint64_t per_step) {
  uint64_t first = 0;
  uint64_t last = 0;
  for (const GrowingSite& entry : growing) {
    if (entry.site.rank == rank) {
      const bool rises = entry.growth.last_bytes != 0;
      first = sum_of(first, rises ? entry.growth.first_bytes : entry.growth.bytes_per_step);
      last = sum_of(last, rises ? entry.growth.last_bytes : entry.growth.bytes_per_step);
    }
  }
  constexpr uint64_t kTimes = 2;
  return last / kTimes >= first && first != 0
             ? fmt::format("by more each time, from {} bytes to {} bytes", first, last)
             : fmt::format("by {} bytes", per_step);
}

// What all places of that rank leave every so many steps; none: they differ, or leave it each step.
struct Rounds {
  int64_t every = 0;
  uint64_t bytes = 0;
};
std::optional<Rounds> rounds_of_rank(const std::vector<GrowingSite>& growing, Rank rank) {
  Rounds rounds;
  for (const GrowingSite& entry : growing) {
    if (entry.site.rank != rank) {
      continue;
    }
    if (entry.growth.every <= 1 || (rounds.every != 0 && rounds.every != entry.growth.every)) {
      return std::nullopt;
    }
    rounds.every = entry.growth.every;
    rounds.bytes = sum_of(rounds.bytes, entry.growth.bytes_per_round);
  }
  return rounds.every == 0 ? std::nullopt : std::optional(rounds);
}

// Of a thread that never chose one: the only one that PyTorch has memory of, else the first.
uint8_t device_of(const ProcessTrace& trace, const GrowingSite& most) {
  if (most.device >= 0) {
    return static_cast<uint8_t>(most.device);
  }
  return trace.tensor_devices.size() == 1 ? static_cast<uint8_t>(trace.tensor_devices[0].device)
                                          : 0;
}

// When the device is full at that rate: it was, or will be.
std::string forecast(const Run& run, const GrowingSite& most, uint64_t per_step) {
  if (most.kind == MemoryKind::kPinned) {
    return {};  // how much of the host's is left is not known
  }
  const ProcessTrace& trace = run.processes[most.site.process];
  const Growth& growth = most.growth;
  const int64_t now = growth.since_step + static_cast<int64_t>(growth.step_count);
  const char* const average = growth.last_bytes != 0 ? " on average" : "";
  const std::string began =
      growth.since_step > 0 ? fmt::format("since step {}", growth.since_step) : "all along";
  if (const OutOfMemoryText* const failure = fatal_failure(trace); failure != nullptr) {
    return fmt::format(
        "rank {}: {} bytes a step{} {}; out of memory at {}{}, when {} bytes were wanted",
        most.site.rank.value, per_step, average, began, run_time(run, failure->time),
        growth.since_step > 0 ? fmt::format(", in step {}", now) : "", failure->bytes);
  }
  const auto told = room_left(trace);
  const OutOfMemoryText newest = held_at(trace, device_of(trace, most), growth.newest);
  const Shortage held = shortage_of(trace, newest);
  const auto room = told         ? told
                    : held.total ? std::optional(room_alone(held) + held.idle.value_or(0))
                                 : std::nullopt;
  if (per_step == 0) {
    return "";
  }
  if (!room) {
    return fmt::format(
        "rank {}: {} bytes a step{} {}; when the device is full is not known: how much memory it "
        "has was not recorded",
        most.site.rank.value, per_step, average, began);
  }
  return fmt::format(
      "rank {}: {} bytes a step{} {}; at that rate the device{} is full in {} more steps",
      most.site.rank.value, per_step, average, began, told ? "" : ", if nothing else uses it,",
      *room / per_step);
}

// When memory ran out; else when the newest copy was made, as all may be freed since.
std::vector<std::string> who_held_with(const Run& run, const GrowingSite& most) {
  if (most.kind == MemoryKind::kPinned) {
    return {};  // of the host's
  }
  const RankState& state = *state_of(run, most.site.rank);
  const ProcessTrace& trace = run.processes[most.site.process];
  const OutOfMemoryText* const failure = fatal_failure(trace);
  if (failure != nullptr && !failure->held.empty()) {
    return who_held(run, state, *failure).lines;
  }
  std::vector<std::string> lines =
      who_held(run, state, held_at(trace, device_of(trace, most), most.growth.newest)).lines;
  if (!lines.empty()) {
    lines.insert(lines.begin(),
                 fmt::format("the list is what rank {} held at {}, after the last of these "
                             "allocations",
                             most.site.rank.value, run_time(run, most.growth.newest)));
  }
  return lines;
}

// Whether that rank ran out of memory because of what grew there.
bool filled_its_device(const Run& run, const std::vector<GrowingSite>& growing, Rank rank) {
  const RankState* const state = state_of(run, rank);
  const OutOfMemoryText* const failure =
      state == nullptr ? nullptr : fatal_failure(trace_of(run, *state));
  if (failure == nullptr) {
    return false;
  }
  uint64_t grown = 0;
  for (const GrowingSite& entry : growing) {
    const bool is_there = entry.device < 0 || entry.device == failure->device;
    if (entry.site.process == state->process && is_there && entry.kind != MemoryKind::kPinned) {
      grown = sum_of(grown, entry.growth.bytes);
    }
  }
  return would_fit_without(shortage_of(trace_of(run, *state), *failure), grown);
}

// A rank that what grew has ended, and others that wait for it: consequences.
void add_consequences(const Run& run, const std::vector<GrowingSite>& growing, Finding& leak) {
  for (const Hang& hang : run.waits.hangs) {
    const bool is_its_own =
        cause_of(run, hang) == Cause::kOutOfMemory &&
        std::all_of(hang.roots.begin(), hang.roots.end(), [&](Rank rank) {
          return contains(leak.culprits, rank) && filled_its_device(run, growing, rank);
        });
    if (!is_its_own) {
      continue;
    }
    for (const Rank rank : hang.victims) {
      insert(leak.victims, rank);
    }
    leak.title +=
        fmt::format("; {} ran out of memory, and {} for {} in {}{}", ranks_text(hang.roots),
                    waiting_text(run, hang), hang.roots.size() == 1 ? "it" : "them",
                    operation_text(run, run.waits.waits[hang.wait]), further_text(run, hang));
  }
  if (!leak.victims.empty()) {
    leak.sides.push_back(leak.victims);
    return;
  }
  const auto full = std::find_if(leak.culprits.begin(), leak.culprits.end(),
                                 [&](Rank rank) { return filled_its_device(run, growing, rank); });
  if (full != leak.culprits.end()) {
    const OutOfMemoryText& failure = *fatal_failure(trace_of(run, *state_of(run, *full)));
    leak.title += fmt::format("; because of it rank {} ran out of memory at {}", full->value,
                              run_time(run, failure.time));
  }
}

// A leak ends no process before the memory does: then that has a reason of its own.
void add_ends(const Run& run, Finding& leak) {
  size_t told = 0;
  for (const RankEnd& end : failures_of(run)) {
    if (contains(leak.culprits, end.state->rank) && end.by() != EndedBy::kStop &&
        told < kEvidenceLines && fatal_failure(trace_of(run, *end.state)) == nullptr) {
      ++told;
      leak.evidence.push_back(fmt::format(
          "rank {} {} at {}, where no allocation had failed: the leak did not end it yet",
          end.state->rank.value,
          end.signal != 0 ? "died of " + signal_text(end.signal)
                          : fmt::format("exited with status {}", end.status),
          run_time(run, end.time)));
    }
  }
}

std::string advice_for(const Growth& most, const std::optional<Rounds>& rounds) {
  if (most.blocks == 1 && most.pieces > 1) {
    return "it is one tensor, made anew and longer each time (as torch.cat does): keep its last "
           "part alone, or move it to the host (.cpu())";
  }
  return (rounds ? fmt::format("free it at the end of what is done every {} steps (an evaluation, "
                               "a checkpoint, an update after accumulated gradients)",
                               rounds->every)
                 : "free it at the end of the step") +
         "; in Python, look for what still refers to it: a list that is appended to, a loss that "
         "keeps its graph (use .item() or .detach())";
}

}  // namespace

void put_leaks_before_hangs(std::vector<Finding>& findings) {
  const auto is_of = [](const Finding& hang, const Finding& leak) {
    const auto has = [](const Ranks& all) {
      return [&](Rank rank) { return contains(all, rank); };
    };
    return leak.code == "memory.growth-leak" && leak.root &&
           std::all_of(hang.culprits.begin(), hang.culprits.end(), has(leak.culprits)) &&
           std::all_of(hang.victims.begin(), hang.victims.end(), has(leak.victims));
  };
  for (Finding& hang : findings) {
    if (hang.code == "run.oom-then-hang" &&
        std::any_of(findings.begin(), findings.end(),
                    [&](const Finding& leak) { return is_of(hang, leak); })) {
      hang.root = false;
      hang.advice = "see memory.growth-leak: without what grows it would have fit";
    }
  }
}

std::vector<Finding> find_growth_leaks(const Run& run, const RunMemory& memory) {
  const std::vector<GrowingSite> growing = growing_sites(run, memory);
  if (growing.empty()) {
    return {};
  }
  std::vector<MemorySite> sites;
  sites.reserve(growing.size());
  for (const GrowingSite& entry : growing) {
    sites.push_back(entry.site);
  }
  Finding finding = memory_finding(run, "memory.growth-leak", sites);
  const Rank first = finding.culprits.front();
  uint64_t per_step = 0;
  uint64_t steps = 0;
  int64_t since = std::numeric_limits<int64_t>::max();
  for (const GrowingSite& entry : growing) {
    if (entry.site.rank == first) {
      per_step = sum_of(per_step, entry.growth.bytes_per_step);
      steps = std::max(steps, entry.growth.step_count);
      since = std::min(since, entry.growth.since_step);
    }
  }
  // That it goes on like this was seen, and that nobody will ever free it was not.
  finding.certainty = Certainty::kLikely;
  finding.root = true;
  if (are_lists_of_scalars(run, growing)) {
    finding.severity = Severity::kInfo;
    finding.root = false;
    finding.culprits.clear();
  }
  const auto rounds = rounds_of_rank(growing, first);
  const auto largest = std::max_element(
      growing.begin(), growing.end(), [](const GrowingSite& a, const GrowingSite& b) {
        return std::pair(a.site.bytes, b.site.rank) < std::pair(b.site.bytes, a.site.rank);
      });
  const std::string elsewhere = finding.sides.front().size() == 1
                                    ? other_device_text(run, largest->site.process, largest->device)
                                    : "";
  finding.title = fmt::format(
      "memory of {}{} grows {}: {}{}, {} bytes in all, {}", ranks_text(finding.sides.front()),
      elsewhere.empty() ? "" : elsewhere + ",",
      rounds ? fmt::format("every {} steps", rounds->every) : "with every step",
      rounds ? fmt::format("by {} bytes", rounds->bytes) : growth_text(growing, first, per_step),
      finding.sides.front().size() == 1 ? "" : fmt::format(" on rank {}", first.value),
      finding.values.front().second,
      finding.where.empty() ? "from an unknown place"
                            : fmt::format("allocated {} {}", at_or_after(largest->site),
                                          place_text(finding.where.front())));
  const auto most = std::find_if(growing.begin(), growing.end(), [&](const GrowingSite& entry) {
    return entry.site.rank == first;
  });
  if (const std::string text = forecast(run, *most, per_step); !text.empty()) {
    finding.evidence.insert(finding.evidence.begin(), text);
  }
  const std::vector<std::string> held = who_held_with(run, *most);
  finding.evidence.insert(finding.evidence.end(), held.begin(), held.end());
  finding.values.emplace_back("bytes_per_step", signed_bytes(per_step));
  finding.values.emplace_back("step_count", signed_bytes(steps));
  if (since > 0) {
    finding.values.emplace_back("steps_before_count", since - 1);
  }
  finding.advice = advice_for(largest->growth, rounds);
  if (!other_device_text(run, largest->site.process, largest->device).empty()) {
    finding.advice =
        "set the device before anything is allocated "
        "(torch.cuda.set_device(local_rank)): that GPU is not its own; then " +
        finding.advice;
  }
  if (largest->site.after != 0) {
    finding.advice += ", gradients that a hook or a list of p.grad keeps";
  }
  if (finding.root) {
    add_consequences(run, growing, finding);
    add_ends(run, finding);
  }
  return {finding};
}

}  // namespace traintrace
