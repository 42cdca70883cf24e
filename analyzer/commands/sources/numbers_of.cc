#include "analyzer/commands/sources/numbers_of.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <span>

#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/model/process/look_up_code.h"
#include "analyzer/reader/read_trace.h"

namespace traintrace {
namespace {

// Many more would take longer than all the rest of the analysis.
constexpr uint64_t kMostRecords = 40'000'000;

// Values, and what tells one step from the next.
constexpr std::string_view kKinds[] = {"scalar", "batch",  "collective",
                                       "check",  "sketch", "send-recv"};

// Messages only where it matters whether they were checked.
std::span<const std::string_view> kinds_of(const ProcessTrace& trace) {
  const auto level = trace.facts.find("setting.TRAINTRACE_PAYLOAD");
  const bool checks =
      level != trace.facts.end() && (level->second == "small" || level->second == "check");
  return std::span(kKinds).first(checks ? 6 : 3);
}

uint64_t records_to_read(const Run& run) {
  uint64_t records = 0;
  for (const ProcessTrace& trace : run.processes) {
    records += has_numbers(trace) ? trace.records : 0;
  }
  return records;
}

void read_numbers(const Run& run, size_t process, Symbolizer& symbolizer, Numbers& numbers) {
  const ProcessTrace& tables = run.processes[process];
  if (!tables.events.empty()) {  // of text: all of it is there
    return add_numbers(run, process, tables, numbers);
  }
  Result<ProcessTrace> trace =
      read_trace(tables.source, {.only_kinds = kinds_of(tables), .booted = tables.booted});
  if (!trace || trace->events.empty()) {
    return;
  }
  std::set<uint32_t> stacks;
  for (const CallRecord& event : trace->events) {
    if (event.moment) {
      stacks.insert(event.stack);
    }
  }
  symbolizer.learn(*trace);
  look_up_code(*trace, stacks, symbolizer);
  add_numbers(run, process, *trace, numbers);
}

bool says_all_is_well(const Finding& finding) {
  return finding.code == "run.healthy" || finding.code == "run.in-progress";
}

bool is_alarm(const Finding& finding) {
  return finding.severity != Severity::kInfo;
}

}  // namespace

Numbers numbers_of(const Run& run) {
  Numbers numbers;
  Symbolizer symbolizer;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    if (has_numbers(run.processes[i])) {
      run_stage("values of " + run.processes[i].source,
                [&] { read_numbers(run, i, symbolizer, numbers); });
    }
  }
  complete(numbers);
  return numbers;
}

std::optional<Numbers> numbers_if_few(const Run& run) {
  return records_to_read(run) > kMostRecords ? std::nullopt : std::optional(numbers_of(run));
}

void add_numeric(Run& run, std::vector<Finding>& findings) {
  run_stage("recorded values", [&] {
    if (std::optional<Numbers> numbers = numbers_if_few(run)) {
      run.numbers = std::make_shared<const Numbers>(std::move(*numbers));
    }
    std::vector<Finding> found =
        run.numbers != nullptr ? find_in_numbers(run, *run.numbers) : std::vector<Finding>();
    if (std::any_of(found.begin(), found.end(), is_alarm)) {
      std::erase_if(findings, says_all_is_well);
    }
    std::move(found.begin(), found.end(), std::back_inserter(findings));
    if (run.numbers != nullptr) {
      put_nonfinite_before_ends(run, *run.numbers, findings);
    }
    std::sort(findings.begin(), findings.end(), is_reported_before);
  });
}

}  // namespace traintrace
