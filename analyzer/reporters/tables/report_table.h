// A report: rows with named columns, and the forms in which it is written (contract.md, schema
// traintrace.report/1).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analyzer/memory/device_peaks.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/text/screen.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/products/utilisation.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

class Symbolizer;

// With four decimals, exactly.
struct ReportDecimal {
  int64_t ten_thousandths;
  bool operator==(const ReportDecimal&) const = default;
  bool operator<(const ReportDecimal& other) const {
    return ten_thousandths < other.ten_thousandths;
  }
};

// Parts of one figure; text leaves out those that are 0.
using ReportParts = std::vector<std::pair<std::string, int64_t>>;

// Nothing: the figure does not apply, or cannot be known.
using ReportCell = std::variant<std::monostate, int64_t, ReportDecimal, std::string,
                                std::vector<std::string>, ReportParts>;

struct ReportTable {
  std::string by;                    // call, rank, stack
  std::vector<std::string> columns;  // units at their ends: _ns, _bytes, _count
  std::vector<std::vector<ReportCell>> rows;
};

// One row per function: how often, how long in it on the host, how many bytes.  `timelines`: how
// long GPUs were idle for it.
ReportTable report_by_call(std::span<const ProcessTrace> processes,
                           std::span<const Timeline> timelines = {});
// One row per call stack, the same for all ranks that have it.  `timelines`: how long GPUs were
// idle for its calls.
ReportTable report_by_stack(std::span<const ProcessTrace> processes,
                            std::span<const Timeline> timelines, Symbolizer& symbolizer);
struct RankedProcess {
  const ProcessTrace* trace;
  std::vector<int64_t> ranks;  // one, but of a process that holds several; none: not known
};
// One row per range of NVTX and rank, most time on the host first: how often, for how long, and
// what the GPU did of what was launched within it.
ReportTable report_by_range(std::span<const RankedProcess> processes);
// One row per rank and device: how its time divides (timeline/partition.h).
ReportTable report_by_rank(std::span<const Timeline> timelines);
struct RankPeak {
  int rank = 0;
  std::string source;
  DevicePeak peak;
};
// Into the rows of report_by_rank; where these have none for the rank and device, new ones.
void add_peaks(std::span<const RankPeak> peaks, ReportTable& table);
ReportTable report_by_step(std::span<const Timeline> timelines);
// One row per stream of each GPU.
ReportTable report_by_stream(std::span<const Timeline> timelines);
// Of another tool's profiles: calls that launch, block, allocate or load.
ReportTable report_by_call(std::span<const Timeline> timelines);
// One row per cause, call and place for which GPUs were idle, most first.
ReportTable report_by_site(std::span<const Timeline> timelines);
enum class WorkGroup : uint8_t { kOperator, kAnnotation, kModule, kKernel };
// One row per kernel, or per operator, annotation or module of the framework that launched it
// (nothing: none is known), most GPU time first: how long GPUs worked for it, were idle before it,
// and for what its calls did.  Sums over rows are those over all work.
ReportTable report_by_work(std::span<const Timeline> timelines, WorkGroup group);
// One row per operation, communicator and size: bandwidth by NCCL's definitions.
ReportTable report_by_collective(std::span<const Timeline> timelines);
// By stack, of calls that have to answer for some; only of recorded traces.
std::map<uint32_t, IdleTimes> idle_by_stack(const Timeline& timeline);
ReportParts idle_parts(const IdleTimes& idle);
// Of calls that have to answer for some.
std::map<std::string, int64_t> idle_by_call(std::span<const Timeline> timelines);
// Two cells: gemm_flops and mfu_percent.
void add_utilisation(const Utilisation& used, std::vector<ReportCell>& row);
// Then by file.
std::vector<const Timeline*> in_order_of_rank(std::span<const Timeline> timelines);

// How a person wants it.
struct ReportChoice {
  std::vector<std::string> columns;  // empty: those that matter; "all" among them: all
  bool all_frames = false;           // of stacks; else those of the job's own code
};
// Empty, or what is wrong with the names of those columns.
std::string complaint_about_columns(const ReportTable& table,
                                    const std::vector<std::string>& wanted);
ReportTable with_columns(const ReportTable& table, const std::vector<std::string>& wanted);

// On a terminal: with units, of columns without any value none.
std::string report_for_people(const ReportTable& table, const ReportChoice& choice,
                              const Screen& screen);
// In a pipe: all columns, exact.
std::string report_text(const ReportTable& table);
std::string report_json(const ReportTable& table);
std::string report_csv(const ReportTable& table);
// For the page: rows without names, which columns matter, and which has bars; of stacks the frames
// that `choice` wants.
std::string report_page_json(const ReportTable& table, const ReportChoice& choice);

}  // namespace traintrace
