// What the rows of reports add up.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/elapsed.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/text/values.h"

namespace traintrace {

struct ReportSums {
  int64_t count = 0;    // calls entered
  int64_t failed = 0;   // returned an error
  int64_t open = 0;     // had not returned
  int64_t open_ns = 0;  // from their entry until the process was last heard of
  int64_t timed = 0;    // of which entry and return are known
  int64_t host_ns = 0;
  int64_t max_ns = 0;
  std::optional<int64_t> bytes;  // of calls that say how many

  // `until`: when the process was last heard of.
  void add(const CallRecord& event, const CallSchema& schema, std::optional<uint64_t> event_bytes,
           TimeNs until) {
    ++count;
    failed += event.returned && is_failure(schema.library, event.result) ? 1 : 0;
    if (!event.returned && !event.leave_lost) {
      add_open(event.enter, until);
    }
    if (event.returned && !event.enter_lost) {
      const int64_t ns = std::max<int64_t>(event.leave - event.enter, 0);
      ++timed;
      host_ns += ns;
      max_ns = std::max(max_ns, ns);
    }
    if (event_bytes) {
      // Sizes in a damaged trace may be anything.
      const auto wrapped = static_cast<uint64_t>(bytes.value_or(0)) + *event_bytes;
      bytes = static_cast<int64_t>(wrapped);
    }
  }

  int64_t all_ns() const { return host_ns + open_ns; }

  void add_open(TimeNs enter, TimeNs until) {
    ++open;
    open_ns += std::max<int64_t>(elapsed(enter, until), 0);
  }

  void add(const ReportSums& other) {
    open_ns += other.open_ns;
    count += other.count;
    failed += other.failed;
    open += other.open;
    timed += other.timed;
    host_ns += other.host_ns;
    max_ns = std::max(max_ns, other.max_ns);
    if (other.bytes) {
      bytes = static_cast<int64_t>(static_cast<uint64_t>(bytes.value_or(0)) +
                                   static_cast<uint64_t>(*other.bytes));
    }
  }

  static const std::vector<std::string>& columns() {
    static const std::vector<std::string>& names = *new std::vector<std::string>{
        "count", "failed_count", "open_count", "open_ns", "host_ns", "mean_ns", "max_ns", "bytes"};
    return names;
  }
  void append_to(std::vector<ReportCell>& row) const {
    for (const int64_t value : {count, failed, open}) {
      row.emplace_back(value);
    }
    append(open != 0 ? std::optional(open_ns) : std::nullopt, row);
    for (const int64_t value : {host_ns, timed != 0 ? host_ns / timed : 0, max_ns}) {
      append(timed != 0 ? std::optional(value) : std::nullopt, row);
    }
    append(bytes, row);
  }

 private:
  // Not by a conditional expression, in which g++ 12 sees something uninitialised.
  static void append(std::optional<int64_t> value, std::vector<ReportCell>& row) {
    if (value) {
      row.emplace_back(*value);
    } else {
      row.emplace_back();
    }
  }
};

// Calls that threads are inside of, and whose entry is recorded no more.
inline std::vector<ThreadText::Open> open_without_record(const ProcessTrace& trace) {
  std::set<std::pair<uint32_t, TimeNs>> recorded;
  for (const CallRecord& event : trace.events) {
    if (!event.returned) {
      recorded.emplace(event.thread, event.enter);
    }
  }
  std::vector<ThreadText::Open> open;
  for (const ThreadText& thread : trace.threads) {
    for (const ThreadText::Open& call : thread.open) {
      if (call.enter != 0 && call.call < trace.calls.size() &&
          !recorded.contains({thread.serial, call.enter})) {
        open.push_back(call);
      }
    }
  }
  return open;
}

// For each call of the trace, which of its values is its size.
inline std::vector<std::optional<size_t>> size_fields(const ProcessTrace& trace) {
  std::vector<std::optional<size_t>> fields;
  for (const CallSchema& call : trace.calls) {
    std::optional<size_t>& field = fields.emplace_back();
    for (size_t i = 0; i < call.fields.size(); ++i) {
      if (call.fields[i].name == "bytes") {
        field = i;
      }
    }
  }
  return fields;
}

inline std::optional<uint64_t> size_of(const ProcessTrace& trace, const CallRecord& event,
                                       const std::vector<std::optional<size_t>>& fields) {
  const std::optional<size_t> field = fields.at(event.call);
  return field ? std::optional(trace.values_of(event)[*field]) : std::nullopt;
}

}  // namespace traintrace
