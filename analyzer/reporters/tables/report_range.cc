// How long ranges of NVTX took on the host, and the GPUs for what was launched within them.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/open_ranges.h"
#include "analyzer/reporters/tables/report_table.h"

namespace traintrace {
namespace {

constexpr size_t kMostNested = 256;

struct RangeSums {
  int64_t count = 0;
  int64_t open = 0;  // of these: neither popped nor ended
  int64_t host_ns = 0;
  int64_t max_ns = 0;
  int64_t launches = 0;
  int64_t gpu_ns = 0;
};

// Whether a number, or a list of lists of numbers, begins there.
bool is_digit_at(std::string_view text, size_t at) {
  return at < text.size() && text[at] >= '0' && text[at] <= '9';
}
bool is_list_at(std::string_view text, size_t at) {
  return at < text.size() && (text[at] == '[' || text[at] == ']');
}

// The name of an operator of PyTorch, without what emit_nvtx adds that differs from call to call:
// "aten::mm, sizes = [[2, 3]]", and the numbers in traces of recorders that kept them.  A range of
// the job's own may be called "attention, seq = 2048" or "load, sizes = [train]".
std::string without_tail(std::string name) {
  constexpr std::string_view kSequence = ", seq = ", kId = ", op_id = ", kSizes = ", sizes = [";
  const bool of_pytorch = name.starts_with("aten::") || name.starts_with("autograd::");
  const size_t id = name.find(kId);
  const bool has_id = id != std::string::npos && is_digit_at(name, id + kId.size());
  size_t end = has_id ? id : name.size();
  const size_t sequence = name.find(kSequence);
  if (sequence < end && (has_id || of_pytorch) && is_digit_at(name, sequence + kSequence.size())) {
    end = sequence;
  }
  const size_t sizes = name.find(kSizes);
  if (sizes < end && is_list_at(name, sizes + kSizes.size())) {
    end = sizes;
  }
  if (end != 0) {
    name.resize(end);
  }
  return name;
}

// By name.
using RangeRows = std::map<std::string, RangeSums>;

// Of one process.  A range counts with what is within it, in it as well as in those around it.
class RangeReader {
 public:
  explicit RangeReader(const ProcessTrace& trace) : trace_(trace) {
    kinds_.reserve(trace.calls.size());
    for (const CallSchema& call : trace.calls) {
      kinds_.push_back(call.kind == "range-push"    ? Kind::kPush
                       : call.kind == "range-pop"   ? Kind::kPop
                       : call.kind == "range-start" ? Kind::kStart
                       : call.kind == "range-end"   ? Kind::kEnd
                       : call.kind == "gpu-launch"  ? Kind::kLaunch
                       : call.kind == "gpu-work"    ? Kind::kWork
                                                    : Kind::kOther);
    }
  }

  RangeRows read() {
    for (const CallRecord& event : trace_.events) {
      if (event.moment && event.call < kinds_.size()) {
        take(event, kinds_[event.call]);
      }
    }
    for (const ThreadText& thread : trace_.threads) {
      add_open(thread);
    }
    for (const auto& [handle, started] : started_) {
      ++started.row->open;
    }
    add_work();
    return std::move(rows_);
  }

  bool knows_work() const { return knows_work_; }

 private:
  enum class Kind : uint8_t { kOther, kPush, kPop, kStart, kEnd, kLaunch, kWork };
  struct Open {
    uint64_t range;
    TimeNs began;
    RangeSums* row;
    bool again;  // within one of the same name, which has its time already
  };
  struct Started {
    TimeNs began;
    RangeSums* row;
  };

  void take(const CallRecord& event, Kind kind) {
    switch (kind) {
      case Kind::kPush:
        return push(event);
      case Kind::kPop:
        return pop(event);
      case Kind::kStart:
        return start(event);
      case Kind::kEnd:
        return end(event);
      case Kind::kLaunch:
        return launch(event);
      case Kind::kWork:
        knows_work_ = true;
        work_ns_[value(event, "correlation")] += value(event, "duration");
        return;
      case Kind::kOther:
        return;
    }
  }

  uint64_t value(const CallRecord& event, std::string_view field) const {
    return value_of(trace_, event, field).value_or(0);
  }

  RangeSums& row_of(uint64_t range) {
    return rows_[without_tail(range_name_text(trace_, static_cast<uint32_t>(range)))];
  }

  void push(const CallRecord& event) {
    const uint64_t range = value(event, "range");
    std::vector<Open>& open = open_[event.thread];
    RangeSums& row = row_of(range);
    ++row.count;
    const bool again =
        std::any_of(open.begin(), open.end(), [&](const Open& outer) { return outer.row == &row; });
    if (open.size() == kMostNested) {
      open.erase(open.begin());  // its end was overwritten, most likely
    }
    open.push_back({range, event.enter, &row, again});
  }

  // The innermost one of that name.  One whose push was overwritten is counted without its time.
  void pop(const CallRecord& event) {
    const uint64_t range = value(event, "range");
    std::vector<Open>& open = open_[event.thread];
    auto found = std::find_if(open.rbegin(), open.rend(),
                              [&](const Open& each) { return range == 0 || each.range == range; });
    if (found == open.rend()) {
      ++row_of(range).count;
      return;
    }
    if (!found->again) {
      add_time(*found->row, found->began, event.enter);
    }
    open.erase(std::next(found).base());
  }

  void start(const CallRecord& event) {
    RangeSums& row = row_of(value(event, "range"));
    ++row.count;
    started_[value(event, "handle")] = {event.enter, &row};
  }

  void end(const CallRecord& event) {
    const auto started = started_.find(value(event, "handle"));
    if (started != started_.end()) {
      add_time(*started->second.row, started->second.began, event.enter);
      started_.erase(started);
    }
  }

  void launch(const CallRecord& event) {
    const auto open = open_.find(event.thread);
    if (open == open_.end() || open->second.empty()) {
      return;
    }
    std::vector<RangeSums*>& rows = launched_[value(event, "correlation")];
    if (!rows.empty()) {
      return;
    }
    for (const Open& range : open->second) {
      if (!range.again) {
        rows.push_back(range.row);
        ++range.row->launches;
      }
    }
  }

  static void add_time(RangeSums& row, TimeNs begin, TimeNs end) {
    const int64_t ns = std::max<int64_t>(elapsed(begin, end), 0);
    row.host_ns += std::min(ns, std::numeric_limits<int64_t>::max() - row.host_ns);
    row.max_ns = std::max(row.max_ns, ns);
  }

  // What its table has is open, also where the record of its push was overwritten.
  void add_open(const ThreadText& thread) {
    const std::vector<Open>& pushed = open_[thread.serial];
    for (const OpenRangeText& range : thread.ranges) {
      if (!range.sort.empty()) {
        continue;  // steps and notes
      }
      RangeSums& row = rows_[without_tail(range_name_text(trace_, range))];
      ++row.open;
      const bool counted = std::any_of(pushed.begin(), pushed.end(), [&](const Open& each) {
        return each.range == range.range && each.began == range.began;
      });
      row.count += counted ? 0 : 1;
    }
  }

  void add_work() {
    for (const auto& [correlation, rows] : launched_) {
      const auto work = work_ns_.find(correlation);
      for (RangeSums* const row : rows) {
        const uint64_t more = work == work_ns_.end() ? 0 : work->second;
        row->gpu_ns = static_cast<int64_t>(static_cast<uint64_t>(row->gpu_ns) + more);
      }
    }
  }

  const ProcessTrace& trace_;
  std::vector<Kind> kinds_;  // by call
  RangeRows rows_;
  std::unordered_map<uint32_t, std::vector<Open>> open_;            // by thread, outermost first
  std::unordered_map<uint64_t, Started> started_;                   // by handle
  std::unordered_map<uint64_t, std::vector<RangeSums*>> launched_;  // by correlation
  std::unordered_map<uint64_t, uint64_t>
      work_ns_;  // by correlation; a damaged trace may overflow it
  bool knows_work_ = false;
};

struct Row {
  std::string name;
  const RankedProcess* process;
  RangeSums sums;
  bool knows_work;
};

std::vector<ReportCell> cells_of(const Row& row) {
  const RangeSums& sums = row.sums;
  std::vector<ReportCell> cells = {row.name, ReportCell()};
  if (row.process->ranks.size() == 1) {
    cells.back() = row.process->ranks.front();
  }
  const int64_t ended = sums.count - sums.open;
  for (const int64_t value :
       {sums.count, sums.open, sums.host_ns, ended <= 0 ? 0 : sums.host_ns / ended, sums.max_ns}) {
    cells.emplace_back(value);
  }
  cells.resize(cells.size() + 2);
  if (row.knows_work) {
    cells[cells.size() - 2] = sums.launches;
    cells.back() = sums.gpu_ns;
  }
  cells.emplace_back(row.process->trace->source);
  return cells;
}

}  // namespace

ReportTable report_by_range(std::span<const RankedProcess> processes) {
  std::vector<Row> rows;
  for (const RankedProcess& process : processes) {
    RangeReader reader(*process.trace);
    for (auto& [name, sums] : reader.read()) {
      rows.push_back({name, &process, sums, reader.knows_work()});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.sums.host_ns > b.sums.host_ns; });
  ReportTable table{"range",
                    {"range", "rank", "count", "open_count", "host_ns", "mean_ns", "max_ns",
                     "launch_count", "gpu_ns", "source"},
                    {}};
  table.rows.reserve(rows.size());
  for (const Row& row : rows) {
    table.rows.push_back(cells_of(row));
  }
  return table;
}

}  // namespace traintrace
