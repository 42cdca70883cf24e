#include <map>
#include <tuple>

#include "analyzer/model/process/launch_facts.h"
#include "analyzer/reporters/tables/report_sums.h"
#include "analyzer/reporters/tables/report_table.h"

namespace traintrace {
namespace {

struct CallRow {
  std::string library;
  std::string kind;
  ReportSums sums;
};

// Most time first, of calls that have not returned, too; by name where that is equal.
std::vector<std::pair<std::string, CallRow>> sorted(std::map<std::string, CallRow> rows) {
  std::vector<std::pair<std::string, CallRow>> all(rows.begin(), rows.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.sums.all_ns() > b.second.sums.all_ns();
  });
  return all;
}

}  // namespace

ReportTable report_by_call(std::span<const ProcessTrace> processes,
                           std::span<const Timeline> timelines) {
  const std::map<std::string, int64_t> idle = idle_by_call(timelines);
  std::map<std::string, CallRow> rows;
  for (const ProcessTrace& trace : processes) {
    std::vector<ReportSums> sums(trace.calls.size());
    const auto sizes = size_fields(trace);
    const TimeNs until = last_sign_of_life(trace);
    for (const CallRecord& event : trace.events) {
      sums[event.call].add(event, trace.calls[event.call], size_of(trace, event, sizes), until);
    }
    for (const ThreadText& thread : trace.threads) {  // polling is counted, and not recorded
      const bool known = thread.last_call && *thread.last_call < sums.size();
      if (known && trace.calls[*thread.last_call].kind.ends_with("query")) {
        sums[*thread.last_call].count += static_cast<int64_t>(thread.queries);
      }
    }
    for (const ThreadText::Open& open : open_without_record(trace)) {
      ++sums[open.call].count;
      sums[open.call].add_open(open.enter, until);
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].count != 0) {
        CallRow& row = rows[trace.calls[i].name];
        row.library = trace.calls[i].library;
        row.kind = trace.calls[i].kind;
        row.sums.add(sums[i]);
      }
    }
  }
  ReportTable table{"call", {"call", "library", "kind"}, {}};
  table.columns.insert(table.columns.end(), ReportSums::columns().begin(),
                       ReportSums::columns().end());
  table.columns.emplace_back("idle_ns");
  for (const auto& [name, row] : sorted(std::move(rows))) {
    std::vector<ReportCell>& cells = table.rows.emplace_back();
    cells = {name, row.library, row.kind};
    row.sums.append_to(cells);
    cells.emplace_back();
    if (!timelines.empty()) {
      const auto lost = idle.find(name);
      cells.back() = lost == idle.end() ? int64_t{0} : lost->second;
    }
  }
  return table;
}

}  // namespace traintrace
