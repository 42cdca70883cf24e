// traintrace dump: every record as text (docs/dump.md).
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "analyzer/commands/command.h"
#include "analyzer/isolation/stage.h"
#include "analyzer/model/ids.h"
#include "analyzer/reader/files/united_errors.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/text/dump_printer.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

struct DumpArguments {
  std::vector<std::string> traces;
  std::string ranks;
  std::string calls = "*";
  std::string since;
  std::string until;
  uint64_t limit = 0;  // 0: none
  bool no_tables = false;
};

// An error: what is wrong with the arguments.
Result<DumpOptions> dump_options(const DumpArguments& arguments, TimeNs start) {
  DumpOptions options;
  options.calls = arguments.calls;
  options.tables = !arguments.no_tables;
  options.limit = arguments.limit != 0 ? arguments.limit : options.limit;
  for (const auto& [text, time] :
       {std::pair(&arguments.since, &options.since), std::pair(&arguments.until, &options.until)}) {
    if (text->empty()) {
      continue;
    }
    const auto parsed = parse_time(*text, start);
    if (!parsed) {
      return ReadError{
          "", 0, "'" + *text + "' is no time: write +12.5 or +300ms, since the start of the dump"};
    }
    *time = *parsed;
  }
  return options;
}

bool is_among(const ProcessTrace& trace, const std::vector<int>& ranks) {
  const auto fact = trace.facts.find("env.RANK");
  return fact != trace.facts.end() && std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
           return std::to_string(rank) == fact->second;
         });
}

// Those of `ranks` that no trace has.
std::vector<int> without_trace(const std::vector<ProcessTrace>& traces, std::vector<int> ranks) {
  std::erase_if(ranks, [&](int rank) {
    return std::any_of(traces.begin(), traces.end(),
                       [&](const ProcessTrace& trace) { return is_among(trace, {rank}); });
  });
  return ranks;
}

Ranks ranks_in(const std::vector<ProcessTrace>& traces) {
  Ranks ranks;
  for (const ProcessTrace& trace : traces) {
    const auto fact = trace.facts.find("env.RANK");
    const auto rank = fact == trace.facts.end() ? std::nullopt : parse_unsigned(fact->second);
    if (rank && *rank <= INT32_MAX) {
      insert(ranks, Rank{static_cast<int>(*rank)});
    }
  }
  return ranks;
}

// What was asked for and is not there.  Empty: all of it is.
std::string missing_text(const std::vector<ProcessTrace>& traces, const std::vector<int>& ranks) {
  Ranks missing;
  for (const int rank : without_trace(traces, ranks)) {
    insert(missing, Rank{rank});
  }
  if (missing.empty()) {
    return "";
  }
  const Ranks there = ranks_in(traces);
  return fmt::format("there is no trace of {} here; {}", ranks_text(missing),
                     there.empty() ? "none of these traces says its rank (RANK in its environment)"
                                   : "there are those of " + ranks_text(there));
}

int dump(const DumpArguments& arguments) {
  // First who there is, then one process after the other: all events at once may be gigabytes.
  TraceSet set = read_traces(arguments.traces, {.events = false});
  for (const ReadError& error : told_errors(set)) {
    say(error);
  }
  if (set.processes.empty()) {
    return 2;
  }
  const auto ranks = parse_ranks(arguments.ranks);
  if (!arguments.ranks.empty() && !ranks) {
    return fail("--rank=" + arguments.ranks + ": write ranks as 0-3,7");
  }
  const std::string missing = ranks ? missing_text(set.processes, *ranks) : "";
  if (!missing.empty() && without_trace(set.processes, *ranks).size() == ranks->size()) {
    return fail(missing);
  }
  if (!missing.empty()) {
    note(missing);
  }
  const DumpHeading heading = dump_heading(set.processes);
  const Result<DumpOptions> options = dump_options(arguments, heading.start);
  if (!options) {
    return fail(options.error().message);
  }
  int status = print(heading.line);
  const auto write = [&](std::string_view text) { status = status != 0 ? status : print(text); };
  for (size_t i = 0; i < set.processes.size(); ++i) {
    ProcessTrace trace = std::move(set.processes[i]);
    if (!arguments.ranks.empty() && !is_among(trace, *ranks)) {
      continue;
    }
    const std::string source = trace.source;
    run_stage("dump of " + source, [&] {
      if (trace.events.empty()) {
        // Of a text the source is no file, and its events are here.
        if (Result<ProcessTrace> whole =
                read_trace(source, {.events = true, .booted = trace.booted})) {
          trace = std::move(*whole);
        }
      }
      print_process(trace, heading.names[i], heading.start, *options, write);
    });
  }
  return status;
}

}  // namespace

void declare_dump(CLI::App& command, Invocation& invocation) {
  auto arguments = std::make_shared<DumpArguments>();
  add_traces(command, arguments->traces);
  command.add_option("--rank", arguments->ranks, "only these ranks, as 0-3,7");
  command.add_option("--call", arguments->calls, "only calls whose name matches this glob");
  command.add_option("--since", arguments->since,
                     "only calls entered at this time or later, as +12.5");
  command.add_option("--until", arguments->until, "only calls entered before this time");
  command.add_option("--limit", arguments->limit, "at most this many calls of each process");
  command.add_flag("--no-tables", arguments->no_tables, "only processes and calls");
  command.callback([arguments, &invocation] {
    invocation.status = supervised([&] { return dump(*arguments); });
  });
}

}  // namespace traintrace
