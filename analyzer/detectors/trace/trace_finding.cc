#include "analyzer/detectors/trace/trace_finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/reader/silent_inputs.h"

namespace traintrace {
namespace {

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

Finding trace_finding(const Run& run, std::string_view code, bool Doubts::*doubt) {
  Finding finding;
  finding.code = code;
  finding.severity =
      doubt != nullptr && any_doubt(run, doubt) ? Severity::kWarning : Severity::kInfo;
  return finding;
}

Ranks ranks_of_process(const Run& run, size_t process) {
  Ranks ranks;
  for (const RankState* const state : states_of(run, process)) {
    insert(ranks, state->rank);
  }
  return ranks;
}

std::vector<std::string> cut(std::vector<std::string> lines) {
  if (lines.size() > kManyEvidenceLines) {
    const size_t more = lines.size() - kManyEvidenceLines;
    lines.resize(kManyEvidenceLines);
    lines.push_back(fmt::format("and {} more", more));
  }
  return lines;
}

std::vector<std::string> error_lines(const Run& run, bool truncated) {
  std::vector<std::string> lines;
  const auto add = [&](const ReadError& error, const std::string& whose) {
    if (error.truncated == truncated && !error.internal && !error.forbidden &&
        !is_silent_file(error.file)) {
      lines.push_back(fmt::format("{}{}: at {}: {}", whose, base_name(error.file), error.offset,
                                  error.message));
    }
  };
  for (size_t i = 0; i < run.processes.size(); ++i) {
    for (const ReadError& error : run.processes[i].errors) {
      add(error, ranks_text(ranks_of_process(run, i)) + ", ");
    }
  }
  for (const ReadError& error : run.unreadable) {
    add(error, "not usable: ");
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace traintrace
