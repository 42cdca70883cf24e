#include "analyzer/importers/logs/testimony.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "analyzer/importers/flight/flight_names.h"
#include "analyzer/importers/flight/flight_recorder.h"
#include "analyzer/importers/logs/job/elastic_log.h"
#include "analyzer/importers/logs/job/launcher_log.h"
#include "analyzer/importers/logs/job/watchdog_log.h"
#include "analyzer/importers/other_files.h"
#include "analyzer/importers/pickle.h"
#include "analyzer/importers/whole_file.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/reader/files/opened_inputs.h"
#include "analyzer/reader/files/read_stage.h"

namespace traintrace {
namespace {

bool looks_like_text(std::string_view bytes) {
  return !bytes.empty() && bytes.find('\0') == bytes.npos;
}

std::string place_text(const ProcessTrace& trace, const OperationText& operation) {
  const auto stack = trace.stacks.find(operation.stack);
  if (stack == trace.stacks.end() || stack->second.python.empty()) {
    return "";
  }
  const PythonFrameText& frame = stack->second.python.front();
  return fmt::format(" at {}:{}", frame.file, frame.line);
}

std::string last_record_text(const ProcessTrace& trace) {
  const CommunicatorText* latest = nullptr;
  for (const CommunicatorText& communicator : trace.communicators) {
    if (!communicator.recent.empty() && (latest == nullptr || communicator.last > latest->last)) {
      latest = &communicator;
    }
  }
  if (latest == nullptr) {
    return "has recorded no operation";
  }
  const OperationText& operation = latest->recent.back();
  return fmt::format(
      "the last record is {}{} on {}, {}{}",
      operation.call < trace.calls.size() ? trace.calls[operation.call].name : "an operation",
      operation.collective ? fmt::format(" #{}", operation.sequence) : "", latest->name,
      (operation.flags & format::kFinished) != 0 ? "finished" : "not finished",
      place_text(trace, operation));
}

// Beside traces nobody misses one that cannot be read.
void add_dumps(const std::vector<std::string>& paths, std::vector<Testimony>& testimonies) {
  const FlightSet set = read_flight_files(paths);
  Testimony testimony{"", "Flight Recorder", {}};
  for (const ProcessTrace& trace : set.processes) {
    Witness witness;
    witness.host = trace.host;
    witness.rank = environment_number(trace, "RANK");
    witness.says = last_record_text(trace);
    testimony.file = testimony.file.empty() ? name_without_rank(trace.source) : testimony.file;
    if (witness.rank) {
      testimony.witnesses.push_back(std::move(witness));
    }
  }
  if (!testimony.witnesses.empty()) {
    testimonies.push_back(std::move(testimony));
  }
}

// The output of a job may have the lines of all.
void add_logs(std::string_view bytes, const std::string& path, std::vector<Testimony>& testimonies,
              std::vector<ReadError>& errors) {
  const size_t known = testimonies.size();
  if (looks_like_ras(bytes)) {
    if (Result<Testimony> status = read_ras(bytes, path)) {
      testimonies.push_back(std::move(*status));
    }
  }
  LauncherLog launchers = read_launcher_log(bytes, path);
  const auto add_launchers = [&] {
    if (!launchers.testimony.witnesses.empty()) {
      testimonies.push_back(std::move(launchers.testimony));
    }
  };
  if (launchers.tells_outer_cause) {
    add_launchers();
  }
  if (Testimony watchdogs = read_watchdog_log(bytes, path); !watchdogs.witnesses.empty()) {
    testimonies.push_back(std::move(watchdogs));
  }
  if (Testimony ends = read_elastic_log(bytes, path); !ends.witnesses.empty()) {
    testimonies.push_back(std::move(ends));
  }
  if (!launchers.tells_outer_cause) {
    add_launchers();
  }
  Result<Testimony> log = read_nccl_log(bytes, path);
  if (log) {
    testimonies.push_back(std::move(*log));
  } else if (testimonies.size() == known) {
    errors.push_back(log.error());
  }
}

void add_testimony(const std::string& path, std::vector<Testimony>& testimonies,
                   std::vector<ReadError>& errors) {
  const Result<WholeFile> file = read_whole_file(path);
  if (!file) {
    errors.push_back(file.error());
    return;
  }
  const bool is_json = file->bytes().find("\"communicators\"") != std::string_view::npos;
  if (!is_json || !looks_like_ras(file->bytes())) {
    add_logs(file->bytes(), path, testimonies, errors);
    return;
  }
  Result<Testimony> status = read_ras(file->bytes(), path);
  if (status) {
    testimonies.push_back(std::move(*status));
  } else {
    errors.push_back(status.error());
  }
}

}  // namespace

bool may_testify(const std::string& path) {
  constexpr size_t kLook = 64 << 10;
  if (looks_like_pickle(content_head(path, 16))) {
    return false;
  }
  const std::string head = content_head(path, kLook);
  if (looks_like_ras(head) || looks_like_nccl_log(head)) {
    return true;
  }
  // Nor is what may be gigabytes unpacked for its end.
  if (!looks_like_text(head) || head.find("\"traceEvents\"") != head.npos) {
    return false;
  }
  // A watchdog and torchrun speak last; the stacks of all ranks may come after them.
  constexpr size_t kEnd = 4 << 20;
  const std::string end = head.size() < kLook ? head : content_tail(path, kEnd);
  return looks_like_ras(end) || looks_like_watchdog_log(end) || looks_like_elastic_log(end) ||
         looks_like_launcher_log(end);
}

std::vector<Testimony> read_testimonies(std::span<const std::string> paths,
                                        std::vector<ReadError>& errors) {
  std::vector<Testimony> testimonies;
  std::vector<std::string> dumps;
  for (const std::string& path : paths) {
    if (!may_testify(path)) {
      dumps.push_back(path);
      continue;
    }
    read_stage(path, errors, [&] { add_testimony(path, testimonies, errors); });
  }
  if (!dumps.empty()) {
    run_stage("read Flight Recorder dumps beside", [&] { add_dumps(dumps, testimonies); });
  }
  for (const Testimony& testimony : testimonies) {
    remember_input(testimony.file);
  }
  return testimonies;
}

}  // namespace traintrace
