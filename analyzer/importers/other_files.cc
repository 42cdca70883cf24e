#include "analyzer/importers/other_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "analyzer/importers/flight/flight_dump.h"
#include "analyzer/importers/flight/flight_names.h"
#include "analyzer/importers/flight/flight_recorder.h"
#include "analyzer/importers/json_value.h"
#include "analyzer/importers/memory/rmm_csv.h"
#include "analyzer/importers/memory/torch_snapshot.h"
#include "analyzer/importers/pickle.h"
#include "analyzer/importers/strange_files.h"
#include "analyzer/importers/whole_file.h"
#include "analyzer/reader/files/read_stage.h"

namespace traintrace {

namespace {

constexpr size_t kShortLook = 256;

bool is_of_other_tools(std::string_view head) {
  return looks_like_pickle(head) || looks_like_json(head) || looks_like_rmm_csv(head) ||
         looks_like_torch_snapshot(head);
}

}  // namespace

bool may_be_other_tools(const std::string& path) {
  return is_of_other_tools(content_head(path, kShortLook));
}

bool may_be_flight_dump(const std::string& path) {
  constexpr size_t kLook = 4096;
  const std::string head = content_head(path, kLook);
  return (looks_like_pickle(head) || looks_like_json(head)) &&
         (head.find("pg_config") != head.npos || head.find("pg_status") != head.npos ||
          head.find("entries") != head.npos);
}

namespace {

// What is known by its beginning; false: it may be a dump.
bool read_memory_file(const std::string& path, std::string_view head, TraceSet& set) {
  const bool rmm = looks_like_rmm_csv(head);
  if (!rmm && !looks_like_torch_snapshot(head)) {
    return false;
  }
  read_stage(path, set.errors, [&] {
    Result<ProcessTrace> trace = rmm ? read_rmm_csv(path) : read_torch_snapshot(path);
    if (trace) {
      set.processes.push_back(std::move(*trace));
    } else {
      set.errors.push_back(trace.error());
    }
  });
  return true;
}

// Of several, the files' names must say which rank each is of.
void give_ranks(std::vector<ProcessTrace>& traces) {
  std::set<int> taken;
  for (ProcessTrace& trace : traces) {
    for (const int rank : ranks_in_name(trace.source)) {
      if (traces.size() > 1 && taken.insert(rank).second) {
        trace.facts["env.RANK"] = std::to_string(rank);
        trace.facts["env.TORCHELASTIC_RUN_ID"] = name_without_rank(trace.source);
        trace.start_time = static_cast<uint64_t>(rank) + 1;
        break;
      }
    }
  }
}

// Of many files of which none is of a kind that we know: once, and which kinds there are.
void fold_unknown(std::vector<ReadError>& errors) {
  // One that is damaged, or is read from elsewhere than its beginning, is known for what it is.
  const bool same = std::all_of(errors.begin(), errors.end(), [&](const ReadError& error) {
    return error.message == errors.front().message && error.offset == 0 && !error.truncated &&
           !error.internal;
  });
  if (errors.size() < 2 || !same) {
    return;
  }
  ReadError one = errors.front();
  const size_t others = errors.size() - 1;
  if (one.message != kOfNoKnownKind) {
    one.message +=
        fmt::format("; the same of {} other file{} there", others, others == 1 ? "" : "s");
    errors = {std::move(one)};
    return;
  }
  const std::string kind = strange_file_text(one.file);
  one.message = (kind.empty() ? "" : kind + "; ") + "of no kind that traintrace reads, nor " +
                (others == 1 ? std::string("is the other file")
                             : "are the other " + std::to_string(others) + " files") +
                " there. It reads traces (*.trace, *.ttz), text of `traintrace dump`, "
                "dumps of PyTorch's Flight Recorder, profiles (JSON with traceEvents) and memory "
                "snapshots, RMM's logs, and beside traces NCCL's RAS status and log";
  errors = {std::move(one)};
}

}  // namespace

TraceSet read_other_files(const std::vector<OtherFile>& files) {
  TraceSet memory;
  std::vector<std::string> dumps;
  std::vector<ReadError> strange;
  std::set<std::string> named;
  for (const OtherFile& file : files) {
    if (file.named) {
      named.insert(file.path);
    }
    const std::string head = content_head(file.path, kShortLook);
    if (read_memory_file(file.path, head, memory)) {
      continue;
    }
    if (is_of_other_tools(head)) {
      dumps.push_back(file.path);
    } else {
      strange.push_back({file.path, 0, "", true, false});
    }
  }
  FlightSet read = read_flight_files(dumps);
  for (ReadError& error : strange) {
    error.message = read.processes.empty()
                        ? kOfNoKnownKind
                        : "expected a Flight Recorder dump, as its neighbours are";
  }
  TraceSet set;
  set.processes = std::move(read.processes);
  set.errors = std::move(read.unreadable);
  // What lies beside the dumps and has another name is none of our business.
  std::set<std::string> names;
  for (const ProcessTrace& trace : set.processes) {
    names.insert(name_without_rank(trace.source));
  }
  std::move(strange.begin(), strange.end(), std::back_inserter(set.errors));
  std::erase_if(set.errors, [&](const ReadError& error) {
    return !named.contains(error.file) && !names.contains(name_without_rank(error.file)) &&
           !(names.empty() && memory.processes.empty());
  });
  const bool none_known = set.processes.empty() && memory.processes.empty() &&
                          memory.errors.empty() && read.unplaced.empty() && named.empty();
  if (none_known) {
    fold_unknown(set.errors);
  }
  for (ReadError& error : set.errors) {
    if (const std::string kind = strange_file_text(error.file);
        error.message == kOfNoKnownKind && !kind.empty()) {
      error.message = kind;
    }
  }
  std::move(read.unplaced.begin(), read.unplaced.end(), std::back_inserter(set.errors));
  give_ranks(memory.processes);
  std::move(memory.processes.begin(), memory.processes.end(), std::back_inserter(set.processes));
  std::move(memory.errors.begin(), memory.errors.end(), std::back_inserter(set.errors));
  return set;
}

}  // namespace traintrace
