#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "analyzer/memory/holders/held_bytes.h"
#include "analyzer/memory/holders/owner_text.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/reporters/tables/report_sums.h"
#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/symbols/symbolizer.h"

namespace traintrace {
namespace {

using Frames = std::vector<std::string>;

// Python frames say more than the interpreter's own below them, which come last.
Frames frames_of(const ProcessTrace& trace, const StackText& stack, Symbolizer& symbolizer) {
  Frames frames;
  for (const PythonFrameText& frame : stack.python) {
    frames.push_back(frame.function + " at " + frame.file + ':' + std::to_string(frame.line));
  }
  for (const uint64_t address : stack.native) {
    for (const NativeFrame& frame : symbolizer.frames(trace, address)) {
      frames.push_back(native_frame_text(frame));
    }
  }
  return frames;
}

void add(std::optional<int64_t>& sum, std::optional<uint64_t> bytes) {
  if (bytes) {
    const uint64_t more = std::min<uint64_t>(*bytes, INT64_MAX);
    sum = static_cast<int64_t>(
        std::min<uint64_t>(sum_of(static_cast<uint64_t>(sum.value_or(0)), more), INT64_MAX));
  }
}

// Of memory in use; none: not known.
struct MemorySums {
  std::optional<int64_t> live, peak, at_exit, growth_per_step;

  void add_all(const HeldBytes& held, bool exited) {
    add(live, held.live);
    add(peak, held.peak);
    add(at_exit, exited ? std::optional(held.live) : std::nullopt);
    add(growth_per_step, held.growth_per_step);
  }
  void append_to(std::vector<ReportCell>& cells) const {
    for (const std::optional<int64_t>& sum : {live, peak, at_exit, growth_per_step}) {
      cells.emplace_back();
      if (sum) {
        cells.back() = *sum;
      }
    }
  }
};

struct StackRow {
  std::optional<IdleTimes> idle;         // none: no process that has this stack has a timeline
  std::map<std::string, int64_t> calls;  // how long each took, ns
  std::set<std::string> owners;
  ReportSums sums;
  MemorySums memory;
};

using Rows = std::map<Frames, StackRow>;

Frames frames_of(const ProcessTrace& trace, uint32_t id, Symbolizer& symbolizer) {
  const auto stack = trace.stacks.find(id);
  return stack == trace.stacks.end()
             ? Frames{"stack " + std::to_string(id) + ", which was not recorded"}
             : frames_of(trace, stack->second, symbolizer);
}

void add_calls(const ProcessTrace& trace, Symbolizer& symbolizer, Rows& rows) {
  std::map<uint32_t, StackRow> by_id;
  const auto sizes = size_fields(trace);
  const TimeNs until = last_sign_of_life(trace);
  for (const CallRecord& event : trace.events) {
    if (event.stack != 0) {
      StackRow& row = by_id[event.stack];
      const int64_t before = row.sums.all_ns();
      row.sums.add(event, trace.calls[event.call], size_of(trace, event, sizes), until);
      row.calls[trace.calls[event.call].name] += row.sums.all_ns() - before;
    }
  }
  for (const ThreadText::Open& open : open_without_record(trace)) {
    if (open.stack != 0) {
      StackRow& row = by_id[open.stack];
      const int64_t before = row.sums.all_ns();
      ++row.sums.count;
      row.sums.add_open(open.enter, until);
      row.calls[trace.calls[open.call].name] += row.sums.all_ns() - before;
    }
  }
  for (auto& [id, row] : by_id) {
    StackRow& total = rows[frames_of(trace, id, symbolizer)];
    total.sums.add(row.sums);
    for (const auto& [name, ns] : row.calls) {
      total.calls[name] += ns;
    }
  }
}

void add_memory(const ProcessTrace& trace, Symbolizer& symbolizer, Rows& rows) {
  for (const auto& [id, held] : held_bytes(trace)) {
    StackRow& row = rows[frames_of(trace, id, symbolizer)];
    row.memory.add_all(held, trace.exited != 0);
    row.owners.insert(owner_text(trace, held.like));
  }
}

void add_idle(const ProcessTrace& trace, const Timeline& timeline, Symbolizer& symbolizer,
              Rows& rows) {
  std::map<uint32_t, IdleTimes> idle = idle_by_stack(timeline);
  for (const CallRecord& event : trace.events) {
    idle.try_emplace(event.stack);  // they have cost nothing
  }
  for (const auto& [id, times] : idle) {
    const bool lost = std::any_of(times.begin(), times.end(), [](int64_t ns) { return ns != 0; });
    if (id == 0 && !lost) {
      continue;
    }
    StackRow& row = rows[frames_of(trace, id, symbolizer)];
    row.idle = row.idle.value_or(IdleTimes{});
    for (size_t i = 0; i < kIdleCauses; ++i) {
      (*row.idle)[i] += times[i];
    }
  }
}

void append_idle(const std::optional<IdleTimes>& idle, std::vector<ReportCell>& cells) {
  cells.resize(cells.size() + 2);
  if (idle) {
    cells[cells.size() - 2] = std::accumulate(idle->begin(), idle->end(), int64_t{0});
    cells.back() = idle_parts(*idle);
  }
}

Frames most_first(const std::map<std::string, int64_t>& calls) {
  std::vector<std::pair<std::string, int64_t>> sorted(calls.begin(), calls.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Frames names;
  for (const auto& [name, ns] : sorted) {
    names.push_back(name);
  }
  return names;
}

}  // namespace

ReportTable report_by_stack(std::span<const ProcessTrace> processes,
                            std::span<const Timeline> timelines, Symbolizer& symbolizer) {
  Rows rows;
  for (const ProcessTrace& trace : processes) {
    add_calls(trace, symbolizer, rows);
    add_memory(trace, symbolizer, rows);
    for (const Timeline& timeline : timelines) {
      if (timeline.source == trace.source) {
        add_idle(trace, timeline, symbolizer, rows);
      }
    }
  }
  std::vector<std::pair<Frames, StackRow>> all(rows.begin(), rows.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.sums.all_ns(), a.second.memory.live.value_or(0)) >
           std::pair(b.second.sums.all_ns(), b.second.memory.live.value_or(0));
  });
  ReportTable table{"stack", ReportSums::columns(), {}};
  table.columns.insert(table.columns.end(),
                       {"live_bytes", "peak_bytes", "exit_bytes", "growth_bytes_per_step",
                        "idle_ns", "idle_by_cause_ns", "owner", "calls", "stack"});
  for (const auto& [frames, row] : all) {
    std::vector<ReportCell>& cells = table.rows.emplace_back();
    row.sums.append_to(cells);
    row.memory.append_to(cells);
    append_idle(row.idle, cells);
    cells.emplace_back(Frames(row.owners.begin(), row.owners.end()));
    cells.emplace_back(most_first(row.calls));
    cells.emplace_back(frames);
  }
  return table;
}

}  // namespace traintrace
