#include "analyzer/exporters/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "analyzer/isolation/stage.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/text/labels.h"
#include "analyzer/text/values.h"
#include "analyzer/text/words.h"
#include "analyzer/timeline/collectives/collective_note.h"

namespace traintrace {
namespace {

constexpr const char* kColumns =
    "rank,pid,thread,kind,name,start_ns,end_ns,device,stream,correlation,communicator,sequence,"
    "result,where,values\n";

// Fields without a value are empty.
struct Row {
  std::string thread;
  std::string kind;
  std::string name;
  TimeNs start = 0;  // since the epoch; 0: not known
  TimeNs end = 0;
  int device = -1;
  std::string stream;
  uint64_t correlation = 0;
  std::string communicator;
  int64_t sequence = -1;
  std::string result;
  std::string where;
  std::string values;
};

template <class Number>
std::string known(Number value, bool is_known) {
  return is_known ? fmt::to_string(value) : "";
}

class Rows {
 public:
  Rows(const ExportedProcess& process, const WriteText& write)
      : rank_(ranks_field(process.ranks)),
        pid_(known(process.pid, process.pid != 0)),
        write_(write) {}
  ~Rows() { write_(text_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  void add(const Row& row) {
    constexpr size_t kBufferBytes = 1 << 16;
    fmt::format_to(std::back_inserter(text_), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                   rank_, pid_, csv_field(row.thread), csv_field(row.kind), csv_field(row.name),
                   known(row.start, row.start != 0), known(row.end, row.end != 0),
                   known(row.device, row.device >= 0), row.stream,
                   known(row.correlation, row.correlation != 0), csv_field(row.communicator),
                   known(row.sequence, row.sequence >= 0), row.result, csv_field(row.where),
                   csv_field(row.values));
    if (text_.size() > kBufferBytes) {
      write_(text_);
      text_.clear();
    }
  }

 private:
  static std::string ranks_field(const Ranks& ranks) {
    std::string text;
    for (const Rank rank : ranks) {
      text += (text.empty() ? "" : ";") + std::to_string(rank.value);
    }
    return text;
  }

  const std::string rank_;
  const std::string pid_;
  const WriteText& write_;
  std::string text_;
};

class RecordedCalls {
 public:
  explicit RecordedCalls(const ProcessTrace& trace)
      : trace_(trace), communicators_(communicator_labels(trace)) {
    for (const ThreadText& thread : trace.threads) {
      threads_.emplace(thread.serial, fmt::format("{}{}{}", thread.tid,
                                                  thread.name.empty() ? "" : " ", thread.name));
    }
  }

  void add_to(Rows& rows) {
    std::vector<uint32_t> order(trace_.events.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return start_of(trace_.events[a]) < start_of(trace_.events[b]);
    });
    for (const uint32_t i : order) {
      rows.add(row_of(trace_.events[i]));
    }
  }

 private:
  static TimeNs start_of(const CallRecord& event) {
    return event.enter_lost ? event.leave : event.enter;
  }

  Row row_of(const CallRecord& event) {
    Row row;
    const auto thread = threads_.find(event.thread);
    row.thread = thread == threads_.end() ? "" : thread->second;
    row.name = call_name(trace_, event.call);
    row.start = event.enter_lost ? 0 : event.enter;
    row.end = event.moment ? event.enter : event.returned ? event.leave : 0;
    row.device = event.device == format::kNoDevice ? -1 : event.device;
    row.where = place_of(event.stack);
    const CallSchema* const schema = schema_of(trace_, event.call);
    if (schema == nullptr) {
      return row;
    }
    row.kind = schema->kind;
    if (event.returned && !event.moment) {
      row.result = result_text(schema->library, event.result);
    }
    add_values(event, *schema, row);
    return row;
  }

  void add_values(const CallRecord& event, const CallSchema& schema, Row& row) const {
    const auto values = trace_.values_of(event);
    for (size_t i = 0; i < values.size() && i < schema.fields.size(); ++i) {
      const FieldSchema& field = schema.fields[i];
      const ValueFormat format = value_format(field.format);
      if (field.after_call && !(event.returned && event.result == 0)) {
        continue;  // nobody has written it
      }
      if (format == ValueFormat::kCommunicator) {
        row.communicator = values[i] - 1 < communicators_.size() ? communicators_[values[i] - 1]
                                                                 : std::to_string(values[i]);
        continue;
      }
      if (field.name == "seq") {
        row.sequence = static_cast<int64_t>(values[i]);
        continue;
      }
      std::string text;
      append_value(text, format, values[i]);
      if (field.name == "stream") {
        row.stream = text;
      } else {
        row.values += (row.values.empty() ? "" : " ") + field.name + '=' + text;
      }
    }
  }

  const std::string& place_of(uint32_t stack) {
    const auto [at, is_new] = places_.try_emplace(stack);
    if (is_new && stack != 0) {
      const std::optional<CodePlace> place = user_place(trace_, {0}, stack);
      at->second = place ? fmt::format("{}:{}:{}", place->file, place->line, place->function) : "";
    }
    return at->second;
  }

  const ProcessTrace& trace_;
  const std::vector<std::string> communicators_;
  std::unordered_map<uint32_t, std::string> threads_;  // by serial
  std::unordered_map<uint32_t, std::string> places_;   // by stack
};

const char* kind_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::kCompute:
      return "gpu-compute";
    case WorkKind::kCommunication:
      return "gpu-communication";
    default:
      return "gpu-memory";
  }
}

void add_work(const Timeline& timeline, Rows& rows) {
  for (const GpuWork& work : timeline.work) {
    Row row;
    row.kind = kind_of(work.kind);
    row.name = timeline.names[work.name];
    row.start = timeline.base_ns + work.start_ns;
    row.end = timeline.base_ns + work.end_ns;
    row.device = work.device;
    row.stream = known(work.stream, work.stream >= 0);
    row.correlation = work.correlation;
    const bool communicates = work.kind == WorkKind::kCommunication;
    if (const CollectiveNote* note =
            communicates ? collective_note(timeline, work.correlation) : nullptr) {
      row.communicator = note->group == kNoName ? "" : timeline.names[note->group];
      row.sequence = note->sequence;
      row.values = note->bytes < 0 ? "" : fmt::format("bytes={}", note->bytes);
    }
    rows.add(row);
  }
}

// Of a profile, which keeps those that something can be learned from.
void add_calls(const Timeline& timeline, Rows& rows) {
  for (const HostCall& call : timeline.calls) {
    Row row;
    row.thread = timeline.threads[call.thread];
    row.kind = "call";
    row.name = timeline.names[call.name];
    row.start = timeline.base_ns + call.start_ns;
    row.end = timeline.base_ns + call.end_ns;
    row.correlation = call.correlation;
    row.where = call.site == kNoName ? "" : timeline.names[call.site];
    rows.add(row);
  }
}

}  // namespace

void write_csv(std::span<const ExportedProcess> processes, const ReadEvents& read_events,
               const WriteText& write) {
  write(kColumns);
  for (const ExportedProcess& process : processes) {
    run_stage("export of " + process.name, [&] {
      Rows rows(process, write);
      if (process.trace != nullptr) {
        RecordedCalls(*read_events(*process.trace)).add_to(rows);
      } else {
        add_calls(*process.timeline, rows);
      }
      if (process.timeline != nullptr) {
        add_work(*process.timeline, rows);
      }
    });
  }
}

}  // namespace traintrace
