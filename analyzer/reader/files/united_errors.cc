#include "analyzer/reader/files/united_errors.h"

#include <fmt/format.h>

#include <vector>

#include "analyzer/reader/elsewhere_hosts.h"
#include "analyzer/text/shell_word.h"

namespace traintrace {
namespace {

std::vector<ReadError> with_elsewhere_in_one(std::vector<ReadError> errors) {
  std::vector<ElsewhereTrace> traces;
  std::string folder;
  for (const ReadError& error : errors) {
    if (error.elsewhere) {
      traces.push_back(*error.elsewhere);
      folder = error.file.substr(0, error.file.rfind('/'));
    }
  }
  if (traces.size() < 2) {
    return errors;
  }
  const ElsewhereHosts hosts(traces);
  std::erase_if(errors, [](const ReadError& error) { return error.elsewhere.has_value(); });
  ReadError& all = errors.emplace_back();
  all.file = folder;
  all.message = fmt::format(
      "{} traces are on the disks of {}: collect them, on each: srun --nodes={} "
      "--ntasks-per-node=1 traintrace collect {}",
      traces.size(),
      hosts.count() == 1 ? fmt::format("their host ({})", hosts.text()) : hosts.text(),
      hosts.count(), shell_word(folder));
  all.fatal = true;
  return errors;
}

// Of several in one folder.
std::vector<ReadError> with_forbidden_in_one(std::vector<ReadError> errors) {
  size_t count = 0;
  std::string folder;
  std::string why;
  for (const ReadError& error : errors) {
    if (error.forbidden) {
      ++count;
      folder = error.file.substr(0, error.file.rfind('/'));
      why = error.message;
    }
  }
  if (count < 2) {
    return errors;
  }
  std::erase_if(errors, [](const ReadError& error) { return error.forbidden; });
  ReadError& all = errors.emplace_back();
  all.file = folder;
  all.message = fmt::format(
      "you may not read {} traces ({}): analyze as the user who ran the job, or as root", count,
      why);
  all.fatal = true;
  all.forbidden = true;
  return errors;
}

}  // namespace

std::vector<ReadError> united_errors(std::vector<ReadError> errors) {
  return with_forbidden_in_one(with_elsewhere_in_one(std::move(errors)));
}

std::vector<ReadError> told_errors(const TraceSet& set) {
  std::vector<ReadError> errors = united_errors(set.errors);
  const bool says_something = !set.supporting.empty();
  if (set.processes.empty() && errors.empty() && (says_something || !set.telemetry.empty())) {
    ReadError& error = errors.emplace_back();
    error.file = says_something ? set.supporting.front() : set.telemetry.front();
    error.message =
        says_something ? "a log or a status, which only `traintrace analyze` reads alone: expected "
                         "traces, or Flight Recorder dumps"
                       : "what GPUs say of themselves, beside traces: expected a trace, too";
    error.fatal = true;
  }
  return errors;
}

}  // namespace traintrace
