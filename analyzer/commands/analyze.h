// traintrace analyze: the verdict about a recorded run.
#pragma once

#include <string>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reporters/verdict/judged_runs.h"
#include "analyzer/text/screen.h"

namespace traintrace {

struct AnalyzeOptions {
  std::vector<std::string> traces;  // none: ./traintrace
  std::vector<std::string> only;    // codes; none: all
  RunOptions run;
  std::string format = "text";  // text, json, html
  std::string output;           // file; empty or "-": stdout
  Screen screen;                // of text
  // With --mpi: what a process needs for its longest step - listing a folder of a file server,
  // packing one trace - is seconds.
  int patience_seconds = 30;
};

// Prints the report.  0: no finding of severity error; 1: at least one; 2: no input was usable, or
// the report could not be written, as said on stderr.
int analyze(const AnalyzeOptions& options);
// The same in this process: what kills it, kills it (isolation/supervise.h).
int analyze_here(const AnalyzeOptions& options);

// The report as `format` and `only` ask for it; `error` says whether it has a finding of severity
// error.
struct Analysis {
  std::string text;
  bool error = false;
};
Result<Analysis> analyze_traces(TraceSet traces, const AnalyzeOptions& options);
// What that is reported of.
Result<JudgedRun> judge_traces(TraceSet traces, const RunOptions& options);
// The latest run of `arguments`, traces of ours, or the one that `options` ask for.
Result<JudgedRun> judge_files(const std::vector<std::string>& arguments, RunOptions options);
// The same of files of PyTorch's profiler.
Result<Analysis> analyze_profiles(const std::vector<std::string>& files,
                                  const AnalyzeOptions& options);
// The files of a profiler among the arguments; none where there are traces of ours too, as is said
// on stderr.
std::vector<std::string> profiles_alone(const std::vector<std::string>& arguments);
// What of `findings` was asked for, as it was asked for.
Analysis report_as_asked(const Run& run, std::vector<Finding> findings,
                         const AnalyzeOptions& options);

}  // namespace traintrace
