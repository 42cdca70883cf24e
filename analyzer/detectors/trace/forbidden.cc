// Traces of which whoever asks may not read the files.
#include <fmt/format.h>

#include <set>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"

namespace traintrace {
namespace {

// HOST.PID.STARTTIME: a trace, its pack and its pointer are of one process.
std::string process_in(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.rfind('.'));
}

}  // namespace

std::vector<Finding> find_forbidden(const Run& run) {
  std::set<std::string> processes;
  std::vector<std::string> lines;
  for (const ReadError& error : run.unreadable) {
    if (error.forbidden) {
      processes.insert(process_in(error.file));
      lines.push_back(error.file + ": " + error.message);
    }
  }
  if (lines.empty()) {
    return {};
  }
  Finding finding = trace_finding(run, "trace.forbidden", &Doubts::missing_traces);
  finding.title = fmt::format("you may not read the traces of {} process{}", processes.size(),
                              processes.size() == 1 ? "" : "es");
  finding.values = {{"process_count", static_cast<int64_t>(processes.size())}};
  finding.evidence = cut(std::move(lines));
  finding.advice =
      "analyze as the user who ran the job, or as root: traces are their owner's alone";
  return {finding};
}

}  // namespace traintrace
