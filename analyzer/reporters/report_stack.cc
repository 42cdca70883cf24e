#include <map>
#include <set>

#include "analyzer/reporters/report_sums.h"
#include "analyzer/reporters/report_table.h"
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

struct StackRow {
  std::set<std::string> calls;
  ReportSums sums;
};

}  // namespace

ReportTable report_by_stack(std::span<const ProcessTrace> processes, Symbolizer& symbolizer) {
  std::map<Frames, StackRow> rows;
  for (const ProcessTrace& trace : processes) {
    std::map<uint32_t, StackRow> by_id;
    const auto sizes = size_fields(trace);
    for (const CallRecord& event : trace.events) {
      if (event.stack != 0) {
        StackRow& row = by_id[event.stack];
        row.sums.add(event, size_of(trace, event, sizes));
        row.calls.insert(trace.calls[event.call].name);
      }
    }
    for (auto& [id, row] : by_id) {
      const auto stack = trace.stacks.find(id);
      const Frames frames = stack == trace.stacks.end()
                                ? Frames{"stack " + std::to_string(id) + ", which was not recorded"}
                                : frames_of(trace, stack->second, symbolizer);
      StackRow& total = rows[frames];
      total.sums.add(row.sums);
      total.calls.merge(row.calls);
    }
  }
  std::vector<std::pair<Frames, StackRow>> all(rows.begin(), rows.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.sums.host_ns > b.second.sums.host_ns;
  });
  ReportTable table{"stack", ReportSums::columns(), {}};
  table.columns.insert(table.columns.end(), {"calls", "stack"});
  for (const auto& [frames, row] : all) {
    std::vector<ReportCell>& cells = table.rows.emplace_back();
    row.sums.append_to(cells);
    cells.emplace_back(Frames(row.calls.begin(), row.calls.end()));
    cells.emplace_back(frames);
  }
  return table;
}

}  // namespace traintrace
