#include "analyzer/commands/sources/details.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analyzer/isolation/stage.h"
#include "analyzer/memory/process_memory.h"
#include "analyzer/model/divergence/registrations.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {
namespace {

// Rings are large.  Who is in a hang of more shows it in the first of them.
constexpr size_t kMostProcesses = 8;
constexpr uint64_t kMostRecordsForMemory = 8'000'000;  // about what so many full rings hold
constexpr size_t kMostEvents = 20'000;                 // the newest
constexpr TimeNs kLongCall = 50'000'000;               // of the older ones

bool has_pending(const ProcessTrace& trace) {
  return std::any_of(
      trace.communicators.begin(), trace.communicators.end(), [&](const CommunicatorText& text) {
        return text.size != 1 && !text.recent.empty() && !finished(trace, text.recent.back());
      });
}

bool nobody_is_missing(const Run& run) {
  return run.waits.hangs.empty() && run.divergences.empty();
}

std::set<size_t> processes_to_read(const Run& run) {
  std::set<size_t> found;
  const auto add = [&](size_t process) {
    if (found.size() < kMostProcesses && run.processes[process].events.empty()) {
      found.insert(process);
    }
  };
  for (const Hang& hang : run.waits.hangs) {
    // What they called otherwise is in the tables.
    for (const Rank rank : hang.divergences.empty() ? hang.roots : Ranks{}) {
      if (const RankState* state = state_of(run, rank)) {
        add(state->process);
      }
    }
  }
  for (size_t i = 0; i < run.processes.size(); ++i) {
    if (is_registering(run.processes[i]) ||
        (nobody_is_missing(run) && has_pending(run.processes[i]))) {
      add(i);
    }
  }
  return found;
}

// Old calls matter if they failed or took long.
bool is_kept(const CallRecord& event, size_t age) {
  return age < kMostEvents || event.result != 0 ||
         (event.returned && !event.enter_lost && elapsed(event.enter, event.leave) >= kLongCall);
}

void take_events(ProcessTrace& full, ProcessTrace& trace) {
  const auto is_call = [](const CallRecord& event) { return !event.moment; };
  auto age = static_cast<size_t>(std::count_if(full.events.begin(), full.events.end(), is_call));
  for (CallRecord event : full.events) {
    if (is_call(event) && is_kept(event, --age)) {
      const auto values = full.values_of(event);
      event.first_value = static_cast<uint32_t>(trace.values.size());
      trace.values.insert(trace.values.end(), values.begin(), values.end());
      trace.events.push_back(event);
    }
  }
  // Stacks that they name may be younger than those that were read before.
  trace.stacks.merge(full.stacks);
}

std::optional<size_t> process_with_highest_peak(const Run& run) {
  std::optional<size_t> found;
  uint64_t most = 0;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    for (const TensorDeviceText& device : run.processes[i].tensor_devices) {
      if (device.peak_allocated > most) {
        most = device.peak_allocated;
        found = i;
      }
    }
  }
  return found;
}

// Those whose tables ask for it first.  Events and graphs have no table that would ask, and may be
// left by one rank alone: then all of a node's, and of a larger run as many as have no more records
// than a node's, but at least one.
std::set<size_t> processes_to_read_for_memory(const Run& run) {
  constexpr size_t kMostAsked = 4;
  std::set<size_t> found;
  const auto can_be_read = [&](size_t i) {
    const ProcessTrace& trace = run.processes[i];
    return trace.events.empty() && !trace.threads.empty();
  };
  const auto add = [&](size_t i) {
    if (can_be_read(i) && asks_for_events(run.processes[i])) {
      found.insert(i);
    }
  };
  if (const auto high = process_with_highest_peak(run)) {
    add(*high);
  }
  for (size_t i = 0; i < run.processes.size() && found.size() < kMostAsked; ++i) {
    add(i);
  }
  const bool is_small = run.processes.size() <= kMostProcesses;
  uint64_t records = 0;
  for (const size_t i : found) {
    records = sum_of(records, run.processes[i].records);
  }
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const uint64_t with_it = sum_of(records, run.processes[i].records);
    if (can_be_read(i) && !found.contains(i) &&
        (is_small || found.empty() || with_it <= kMostRecordsForMemory)) {
      found.insert(i);
      records = with_it;
    }
  }
  return found;
}

void read_details(ProcessTrace& trace, bool whole) {
  Result<ProcessTrace> full = read_trace(trace.source, {.events = true,
                                                        .reports = false,
                                                        .tensor_blocks = false,  // it has them
                                                        .booted = trace.booted,
                                                        .lean = true,
                                                        .first_calls = trace.calls});
  const bool same = full && full->host == trace.host && full->pid == trace.pid &&
                    full->start_time == trace.start_time &&
                    full->communicators.size() >= trace.communicators.size();
  if (same) {
    trace.calls = std::move(full->calls);
    trace.modules = std::move(full->modules);
  }
  if (same && whole) {
    trace.events = std::move(full->events);
    trace.values = std::move(full->values);
    trace.stored_reports = std::move(full->stored_reports);
    trace.stacks.merge(full->stacks);
  } else if (same) {
    take_events(*full, trace);
  }
}

}  // namespace

void read_details(Run& run) {
  const std::set<size_t> whole = processes_to_read_for_memory(run);
  std::set<size_t> processes = processes_to_read(run);
  processes.insert(whole.begin(), whole.end());
  for (const size_t process : processes) {
    ProcessTrace& trace = run.processes[process];
    run_stage("events of " + trace.source, [&] { read_details(trace, whole.contains(process)); });
  }
}

}  // namespace traintrace
