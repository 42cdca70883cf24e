#include "tests/fuzz/pipeline.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>

#include "analyzer/commands/analyze.h"
#include "analyzer/commands/diff_memory.h"
#include "analyzer/commands/sources/profiled_run.h"
#include "analyzer/detectors/lost_time/latency.h"
#include "analyzer/exporters/collapsed.h"
#include "analyzer/exporters/csv.h"
#include "analyzer/exporters/flight_recorder.h"
#include "analyzer/exporters/heaptrack.h"
#include "analyzer/exporters/kineto.h"
#include "analyzer/exporters/perfetto.h"
#include "analyzer/exporters/torch_snapshot.h"
#include "analyzer/importers/flight/flight_recorder.h"
#include "analyzer/importers/memory/torch_snapshot.h"
#include "analyzer/importers/pickle.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/memory/device_peaks.h"
#include "analyzer/page/page.h"
#include "analyzer/reporters/diff/diff_report.h"
#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/recorded/recorded.h"

namespace traintrace::fuzz {
namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

void check(bool holds, const std::string& what) {
  if (!holds) {
    fail(what);
  }
}

void check_json(const std::string& text, const char* what) {
  check(nlohmann::json::accept(text), std::string("not JSON: ") + what);
}

void check_findings(const Run& run, const std::vector<Finding>& findings) {
  check(!findings.empty(), "no finding at all");
  const FindingsReport report = report_findings(run, findings);
  check(!report.verdict.empty(), "no verdict");
  constexpr Screen kTerminal{true, 80, true};
  check(!findings_text(run, report, {}, {}).empty(), "no text");
  check(!findings_text(run, report, {}, kTerminal).empty(), "no card");
  check(!page_html(run, report, {}).empty(), "no page");
  check_json(findings_json(run, report), "findings");
}

void write_table(const ReportTable& table) {
  for (const std::vector<ReportCell>& row : table.rows) {
    check(row.size() == table.columns.size(), "a row that is not as wide as its table");
  }
  check(!report_text(table).empty() && !report_csv(table).empty(), "an empty table");
  check_json(report_json(table), "a table");
}

void write_tables(const std::vector<ProcessTrace>& processes, std::vector<Timeline> timelines,
                  Symbolizer& symbolizer) {
  write_table(report_by_call(processes, timelines));
  write_table(report_by_stack(processes, timelines, symbolizer));
  note_late_peers(find_arrivals(timelines), timelines);
  ReportTable by_rank = report_by_rank(timelines);
  std::vector<RankPeak> peaks;
  for (const ProcessTrace& trace : processes) {
    for (const DevicePeak& peak : device_peaks(trace).devices) {
      peaks.push_back({static_cast<int>(peaks.size() % 2), trace.source, peak});
    }
  }
  add_peaks(peaks, by_rank);
  write_table(by_rank);
  write_table(report_by_step(timelines));
  write_table(report_by_stream(timelines));
  write_table(report_by_site(timelines));
}

constexpr size_t kReadBack = 16;  // as many processes are enough

// What we export for others we can read ourselves.
void export_memory(const std::vector<ProcessTrace>& processes, Symbolizer& symbolizer) {
  for (const CollapsedBytes bytes :
       {CollapsedBytes::kLive, CollapsedBytes::kPeak, CollapsedBytes::kGrowth}) {
    collapsed_stacks(processes, bytes, symbolizer);
  }
  for (const ProcessTrace& trace :
       std::span(processes).first(std::min(kReadBack, processes.size()))) {
    heaptrack_file(trace, symbolizer);
    const std::string snapshot = torch_snapshot(trace, symbolizer);
    ValueArena arena;
    const Result<Value> root = read_pickle(snapshot, "exported", arena);
    check(static_cast<bool>(root), "an exported snapshot that is no pickle");
    const Result<ProcessTrace> again = torch_snapshot_trace(*root, "exported");
    check(again || !again.error().message.empty(), "an error without a message");
  }
}

void export_dumps(const Run& run) {
  const BlockedOperations blocked = blocked_operations(run);
  for (const RankState& state : std::span(run.ranks).first(std::min(kReadBack, run.ranks.size()))) {
    const std::string dump = flight_recorder_dump(run, state, blocked);
    ValueArena arena;
    const Result<Value> root = read_pickle(dump, "exported", arena);
    check(static_cast<bool>(root), "an exported dump that is no pickle");
    const Result<FlightDump> again = flight_dump(*root, "exported");
    check(again || !again.error().message.empty(), "an error without a message");
  }
}

void export_timelines(const std::vector<Timeline>& timelines) {
  for (const Timeline& timeline : timelines) {
    check_json(kineto_trace(timeline), "an exported profile");
  }
}

void export_run(const std::vector<ExportedProcess>& processes, const std::vector<Finding>& findings,
                const ReadEvents& read_events) {
  check(!perfetto_trace(processes, findings, read_events).empty(), "an empty trace for Perfetto");
  size_t bytes = 0;
  write_csv(processes, read_events, [&](std::string_view text) { bytes += text.size(); });
  check(bytes != 0, "an empty table");
}

void print_all(const std::vector<ProcessTrace>& processes) {
  std::string text;
  print_dump(processes, {}, [&](std::string_view part) { text += part; });
  const Result<DumpText> again = parse_dump(text, "fuzz");
  check(static_cast<bool>(again), "a dump that cannot be read");
}

std::vector<Timeline> timelines_of(const Run& run, Symbolizer& symbolizer) {
  const JobSizes sizes = job_sizes(run);
  std::vector<Timeline> timelines;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    if (has_gpu_timeline(trace) && gpu_timeline_refused(trace).empty()) {
      timelines.push_back(recorded_timeline(trace, state.rank, sizes, symbolizer));
    }
  }
  std::erase_if(timelines, [](const Timeline& timeline) { return timeline.work.empty(); });
  return timelines;
}

void judge_profile(const Run& run, const std::vector<Timeline>& timelines) {
  if (timelines.empty()) {
    return;
  }
  const Profile profile = build_profile(timelines);
  check_findings(run, find_in_profile(profile));
  const ProfileDiff time = diff_profiles(profile, profile);
  diff_text({nullptr, &time, {}});
  check_json(diff_json({nullptr, &time, {}}), "a difference");
}

void compare(const Run& run, const ReadEvents& read_events) {
  const RunDiff calls = diff_runs(run, run, read_events);
  const Difference difference{&calls, nullptr, diff_memory(run, run)};
  diff_text(difference);
  check_json(diff_json(difference), "a difference");
}

}  // namespace

MemoryFile::MemoryFile()
    : descriptor_(memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {}

void MemoryFile::set(const void* bytes, size_t size) const {
  if (ftruncate(descriptor_, 0) != 0 ||
      pwrite(descriptor_, bytes, size, 0) != static_cast<ssize_t>(size)) {
    fail("no file in memory");
  }
}

ProcessTrace twin_of(const ProcessTrace& trace) {
  ProcessTrace twin = trace;
  twin.pid += 1;
  twin.start_time += 1;
  twin.source += "-twin";
  const auto rank = twin.facts.find("env.RANK");
  if (rank != twin.facts.end()) {
    rank->second = rank->second == "1" ? "0" : "1";
  }
  for (CommunicatorText& communicator : twin.communicators) {
    communicator.rank ^= 1;
  }
  return twin;
}

void run_pipeline(std::vector<ProcessTrace> processes) {
  let_failures_through();
  print_all(processes);
  RunOptions options;
  options.read_events = [](const ProcessTrace& trace) { return &trace; };
  TraceSet set;
  set.processes = std::move(processes);
  const Result<JudgedRun> judged = judge_traces(std::move(set), options);
  if (!judged) {
    check(!judged.error().message.empty(), "an error without a message");
    return;
  }
  const Run& run = judged->run;
  check_findings(run, judged->findings);
  Symbolizer symbolizer;
  const std::vector<Timeline> timelines = timelines_of(run, symbolizer);
  judge_profile(run, timelines);
  write_tables(run.processes, timelines, symbolizer);
  export_memory(run.processes, symbolizer);
  export_dumps(run);
  export_timelines(timelines);
  const std::vector<CurveGroup> numbers =
      run.numbers == nullptr ? std::vector<CurveGroup>() : curves_of(run, *run.numbers);
  std::vector<ExportedProcess> exported;
  for (const RankState& state : run.ranks) {
    const Timeline* const own =
        timelines.size() == run.ranks.size() ? &timelines[exported.size()] : nullptr;
    exported.push_back({trace_of(run, state).source,
                        trace_of(run, state).pid,
                        {state.rank},
                        &trace_of(run, state),
                        own,
                        exported_numbers(numbers, state.process)});
  }
  export_run(exported, judged->findings, options.read_events);
  compare(run, options.read_events);
}

void run_profiles(const std::vector<std::string>& files) {
  let_failures_through();
  const Result<ProfiledRun> profiled = read_profiled_run(files);
  if (!profiled) {
    check(!profiled.error().message.empty(), "an error without a message");
    return;
  }
  Symbolizer symbolizer;
  const std::vector<Timeline>& timelines = profiled->profile.timelines;
  judge_profile(profiled->run, timelines);
  write_tables({}, timelines, symbolizer);
  write_table(report_by_call(timelines));
  export_timelines(timelines);
  std::vector<ExportedProcess> exported;
  exported.reserve(timelines.size());
  for (const Timeline& timeline : timelines) {
    exported.push_back({"rank", 0, {Rank{timeline.rank.value_or(0)}}, nullptr, &timeline});
  }
  export_run(exported, find_in_profile(profiled->profile), {});
}

}  // namespace traintrace::fuzz
