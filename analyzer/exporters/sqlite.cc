#include "analyzer/exporters/sqlite.h"

#include <fmt/format.h>

#include <unordered_map>

#include "analyzer/isolation/stage.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/text/labels.h"
#include "analyzer/text/values.h"

namespace traintrace {
namespace {

// docs/sql.md describes each column; a test compares them.
constexpr const char* kSchema = R"(
CREATE TABLE processes(process INTEGER PRIMARY KEY, host TEXT, pid INTEGER, source TEXT, started_ns INTEGER,
  last_alive_ns INTEGER, exit_status INTEGER, gone_ns INTEGER);
CREATE TABLE ranks(rank INTEGER, process INTEGER);
CREATE TABLE facts(process INTEGER, key TEXT, value TEXT);
CREATE TABLE communicators(process INTEGER, communicator INTEGER, id TEXT, name TEXT, size INTEGER, local_rank INTEGER,
  collectives INTEGER, created_ns INTEGER, ready_ns INTEGER);
CREATE TABLE operations(process INTEGER, communicator INTEGER, sequence INTEGER, name TEXT, count INTEGER, type TEXT,
  reduction TEXT, peer INTEGER, entered_ns INTEGER, returned_ns INTEGER, state TEXT, place TEXT);
CREATE TABLE calls(process INTEGER, tid INTEGER, name TEXT, kind TEXT, entered_ns INTEGER, returned_ns INTEGER,
  result TEXT, device INTEGER, place TEXT);
CREATE TABLE allocations(process INTEGER, address INTEGER, bytes INTEGER, device INTEGER, name TEXT, time_ns INTEGER,
  place TEXT);
CREATE TABLE gpu_work(process INTEGER, device INTEGER, stream INTEGER, kind TEXT, name TEXT, start_ns INTEGER,
  end_ns INTEGER, correlation INTEGER);
CREATE TABLE findings(finding INTEGER PRIMARY KEY, code TEXT, severity TEXT, certainty TEXT, title TEXT,
  communicator TEXT, sequence INTEGER, advice TEXT);
CREATE TABLE finding_ranks(finding INTEGER, rank INTEGER, role TEXT);
CREATE TABLE evidence(finding INTEGER, line INTEGER, text TEXT);
)";

constexpr const char* kIndices = R"(
CREATE INDEX ranks_by_rank ON ranks(rank);
CREATE INDEX operations_by_sequence ON operations(communicator, sequence);
CREATE INDEX operations_by_process ON operations(process, communicator);
CREATE INDEX calls_by_name ON calls(name, process);
CREATE INDEX calls_by_time ON calls(process, entered_ns);
CREATE INDEX gpu_work_by_time ON gpu_work(process, start_ns);
CREATE INDEX allocations_by_place ON allocations(place);
)";

SqlValue time_of(TimeNs time) {
  return sql_known(time, time != 0);
}

SqlValue device_of(uint8_t device) {
  return sql_known(int64_t{device}, device != format::kNoDevice);
}

const char* state_of(const OperationText& operation) {
  if ((operation.flags & format::kFailed) != 0) {
    return "failed";
  }
  if (operation.completed != 0 || operation.gpu == GpuState::kFinished ||
      (operation.flags & format::kFinished) != 0) {
    return "finished";
  }
  switch (operation.gpu) {
    case GpuState::kEnqueued:
      return "enqueued";
    case GpuState::kReached:
      return "started";
    case GpuState::kPending:
      return "pending";
    default:
      return operation.leave == 0 ? "entered" : "enqueued";
  }
}

const char* table_kind(WorkKind kind) {
  switch (kind) {
    case WorkKind::kCompute:
      return "compute";
    case WorkKind::kCommunication:
      return "communication";
    default:
      return "memory";
  }
}

// The rows of one process.
class ProcessRows {
 public:
  ProcessRows(const ProcessTrace& trace, int64_t number, SqliteFile& file)
      : trace_(trace), number_(number), file_(file) {}

  void add_process() {
    const bool exited = trace_.exit_kind != format::kNotExited;
    file_.add("processes", {number_, trace_.host, int64_t{trace_.pid}, trace_.source,
                            time_of(trace_.armed), time_of(trace_.last_alive),
                            sql_known(int64_t{trace_.exit_status}, exited), time_of(trace_.gone)});
    for (const auto& [key, value] : trace_.facts) {
      file_.add("facts", {number_, key, value});
    }
  }

  void add_communicators() {
    const std::vector<std::string> labels = communicator_labels(trace_);
    for (size_t i = 0; i < trace_.communicators.size(); ++i) {
      const CommunicatorText& one = trace_.communicators[i];
      const auto communicator = static_cast<int64_t>(i + 1);
      file_.add(
          "communicators",
          {number_, communicator, fmt::format("{:016x}", one.id), labels[i],
           sql_known(int64_t{one.size}, one.size >= 0), sql_known(int64_t{one.rank}, one.rank >= 0),
           static_cast<int64_t>(one.collectives), time_of(one.created), time_of(one.ready)});
      for (const OperationText& operation : one.recent) {
        add_operation(operation, communicator);
      }
    }
  }

  void add_calls() {
    std::unordered_map<uint32_t, int64_t> tids;
    for (const ThreadText& thread : trace_.threads) {
      tids[thread.serial] = thread.tid;
    }
    for (const CallRecord& event : trace_.events) {
      const CallSchema* const schema = schema_of(trace_, event.call);
      const bool has_result = schema != nullptr && event.returned && !event.moment;
      file_.add(
          "calls",
          {number_, sql_known(tids[event.thread], tids[event.thread] != 0),
           call_name(trace_, event.call), schema == nullptr ? SqlValue() : SqlValue(schema->kind),
           event.enter_lost ? SqlValue() : time_of(event.enter),
           event.returned ? time_of(event.leave) : SqlValue(),
           has_result ? SqlValue(result_text(schema->library, event.result)) : SqlValue(),
           device_of(event.device), place_of(event.stack)});
    }
  }

  void add_allocations() {
    for (const AllocationText& one : trace_.allocations) {
      file_.add("allocations",
                {number_, static_cast<int64_t>(one.address), static_cast<int64_t>(one.bytes),
                 device_of(one.device), call_name(trace_, one.call), time_of(one.time),
                 place_of(one.stack)});
    }
  }

 private:
  void add_operation(const OperationText& operation, int64_t communicator) {
    file_.add(
        "operations",
        {number_, communicator,
         sql_known(static_cast<int64_t>(operation.sequence), operation.sequence != 0),
         call_name(trace_, operation.call), static_cast<int64_t>(operation.count),
         operation.data_type < 0 ? SqlValue() : SqlValue(data_type_name(operation.data_type)),
         operation.reduction < 0 ? SqlValue() : SqlValue(reduction_name(operation.reduction)),
         sql_known(int64_t{operation.peer}, operation.peer >= 0), time_of(operation.enter),
         time_of(operation.leave), std::string(state_of(operation)), place_of(operation.stack)});
  }

  SqlValue place_of(uint32_t stack) {
    const auto [at, is_new] = places_.try_emplace(stack);
    if (is_new && stack != 0) {
      const std::optional<CodePlace> place = user_place(trace_, {0}, stack);
      at->second = place ? fmt::format("{}:{}:{}", place->file, place->line, place->function) : "";
    }
    return sql_known(at->second);
  }

  const ProcessTrace& trace_;
  int64_t number_;
  SqliteFile& file_;
  std::unordered_map<uint32_t, std::string> places_;
};

void add_work(const Timeline& timeline, int64_t process, SqliteFile& file) {
  for (const GpuWork& work : timeline.work) {
    file.add("gpu_work",
             {process, int64_t{work.device}, sql_known(int64_t{work.stream}, work.stream >= 0),
              std::string(table_kind(work.kind)), timeline.names[work.name],
              timeline.base_ns + work.start_ns, timeline.base_ns + work.end_ns,
              sql_known(static_cast<int64_t>(work.correlation), work.correlation != 0)});
  }
}

void add_finding(const Finding& finding, int64_t number, SqliteFile& file) {
  file.add("findings",
           {number, std::string(finding.code), std::string(name_of(finding.severity)),
            std::string(name_of(finding.certainty)), finding.title,
            finding.communicator ? SqlValue(finding.communicator->name) : SqlValue(),
            finding.sequence ? SqlValue(static_cast<int64_t>(*finding.sequence)) : SqlValue(),
            sql_known(finding.advice)});
  for (const auto& [ranks, role] :
       {std::pair(&finding.culprits, "culprit"), std::pair(&finding.victims, "victim")}) {
    for (const Rank rank : *ranks) {
      file.add("finding_ranks", {number, int64_t{rank.value}, std::string(role)});
    }
  }
  for (size_t i = 0; i < finding.evidence.size(); ++i) {
    file.add("evidence", {number, static_cast<int64_t>(i + 1), finding.evidence[i]});
  }
}

}  // namespace

void write_sqlite(std::span<const ExportedProcess> processes, std::span<const Finding> findings,
                  const ReadEvents& read_events, SqliteFile& file) {
  file.run(kSchema);
  for (size_t i = 0; i < processes.size(); ++i) {
    const ExportedProcess& process = processes[i];
    const auto number = static_cast<int64_t>(i + 1);
    run_stage("export of " + process.name, [&] {
      for (const Rank rank : process.ranks) {
        file.add("ranks", {int64_t{rank.value}, number});
      }
      if (process.trace != nullptr) {
        ProcessRows rows(*read_events(*process.trace), number, file);
        rows.add_process();
        rows.add_communicators();
        rows.add_calls();
        rows.add_allocations();
      }
      if (process.timeline != nullptr) {
        add_work(*process.timeline, number, file);
      }
    });
  }
  for (size_t i = 0; i < findings.size(); ++i) {
    add_finding(findings[i], static_cast<int64_t>(i + 1), file);
  }
  file.run(kIndices);
}

}  // namespace traintrace
