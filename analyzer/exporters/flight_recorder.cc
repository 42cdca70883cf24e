#include "analyzer/exporters/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "analyzer/exporters/pickle_writer.h"
#include "analyzer/importers/flight/flight_entry.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// What PyTorch gives a group of NCCL: how long its operations may take is not recorded.
constexpr int64_t kUsualTimeoutMs = 600'000;

struct Entry {
  const Communicator* communicator = nullptr;
  const Member* member = nullptr;
  const OperationText* operation = nullptr;
  int64_t group = 0;        // number of the communicator on this rank
  uint64_t collective = 0;  // at or before it
  uint64_t between_peers = 0;
};

std::string group_name(const Communicator& communicator) {
  return fmt::format("{:016x}", communicator.id.value);
}

std::vector<Entry> entries_of(const Run& run, Rank rank) {
  std::vector<Entry> entries;
  int64_t group = 0;
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, rank);
    if (member == nullptr) {
      continue;
    }
    Entry entry{&communicator, member, nullptr, group++};
    for (const OperationText& operation : text_of(run, *member).recent) {
      if ((operation.flags & (format::kCaptured | format::kFailed)) != 0) {
        continue;
      }
      entry.operation = &operation;
      entry.collective = operation.collective ? operation.sequence : entry.collective;
      entry.between_peers += operation.collective ? 0 : 1;
      entries.push_back(entry);
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.operation->enter, a.group) < std::tie(b.operation->enter, b.group);
  });
  return entries;
}

void write_groups(const Run& run, Rank rank, PickleWriter& out) {
  out.text("pg_config");
  out.begin_dict();
  for (const Communicator& communicator : run.communicators) {
    if (member_of(communicator, rank) == nullptr) {
      continue;
    }
    std::vector<std::pair<int, int>> places;
    for (const Member& member : communicator.members) {
      places.emplace_back(member.local_rank, member.rank.value);
    }
    std::sort(places.begin(), places.end());
    std::string ranks;
    for (const auto& [local, global] : places) {
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", global);
    }
    out.text(group_name(communicator));
    out.begin_dict();
    out.key_text("name", group_name(communicator));
    out.key_text("desc", communicator.name);
    out.key_text("ranks", '[' + ranks + ']');
    out.end_dict();
  }
  out.end_dict();
}

void write_status(const Run& run, Rank rank, PickleWriter& out) {
  out.text("pg_status");
  out.begin_dict();
  int group = 0;
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, rank);
    if (member == nullptr) {
      continue;
    }
    const CommunicatorText& text = text_of(run, *member);
    uint64_t last = text.finished;
    for (const OperationText& operation : text.recent) {
      const bool done = operation.collective && finished(run.processes[member->process], operation);
      last = done ? std::max(last, operation.sequence) : last;
    }
    out.text(std::to_string(group++));
    out.begin_dict();
    out.key_integer("last_enqueued_collective", static_cast<int64_t>(text.collectives));
    out.key_integer("last_started_collective", -1);
    out.key_integer("last_completed_collective", last == 0 ? -1 : static_cast<int64_t>(last));
    out.end_dict();
  }
  out.end_dict();
}

std::string name_of(const Entry& entry, const std::string& function) {
  const OperationText& operation = *entry.operation;
  if (!operation.collective) {
    return fmt::format("nccl:{} {}{}{}", operation.receive ? "recv" : "send",
                       entry.member->local_rank, operation.receive ? "<-" : "->", operation.peer);
  }
  if (operation.as == CalledAs::kBarrier) {
    return "nccl:all_reduce_barrier";
  }
  std::string_view plain = function;
  if (plain == "ncclBcast" || plain == "pncclBcast") {
    plain = "ncclBroadcast";
  }
  const std::string_view name = flight_name(plain.substr(plain.starts_with("pnccl") ? 1 : 0));
  return fmt::format("nccl:{}", name.empty() ? function : name);
}

// Elements of one rank; 0: not known.
void write_sizes(std::string_view key, uint64_t elements, PickleWriter& out) {
  out.text(key);
  out.begin_list();
  out.begin_list();
  out.integer(static_cast<int64_t>(elements));
  out.end_list();
  out.end_list();
}

void write_data(const Entry& entry, const std::string& function, PickleWriter& out) {
  const uint64_t count = entry.operation->count;
  const auto all = static_cast<uint64_t>(std::max(entry.communicator->size, 1));
  const bool exchange = function.ends_with("AlltoAll");
  write_sizes("input_sizes",
              exchange || function.ends_with("ReduceScatter") || function.ends_with("Scatter")
                  ? count * all
                  : count,
              out);
  write_sizes("output_sizes",
              exchange || function.ends_with("AllGather") || function.ends_with("ncclGather")
                  ? count * all
                  : count,
              out);
  const std::string_view type = flight_type_name(entry.operation->data_type);
  for (const char* key : {"input_dtypes", "output_dtypes"}) {
    out.text(key);
    out.begin_list();
    out.text(type);
    out.end_list();
  }
}

void write_frames(const ProcessTrace& trace, uint32_t stack, PickleWriter& out) {
  const auto found = trace.stacks.find(stack);
  if (found == trace.stacks.end() || found->second.python.empty()) {
    return;
  }
  out.text("frames");
  out.begin_list();
  for (const PythonFrameText& frame : found->second.python) {
    out.begin_dict();
    out.key_text("name", frame.function);
    out.key_text("filename", frame.file);
    out.key_integer("line", frame.line);
    out.end_dict();
  }
  out.end_list();
}

const char* state_name(const ProcessTrace& trace, const OperationText& operation) {
  return finished(trace, operation)                          ? "completed"
         : gpu_state(trace, operation) == GpuState::kReached ? "started"
                                                             : "scheduled";
}

void write_entry(const Run& run, const Entry& entry, int64_t number, PickleWriter& out) {
  const ProcessTrace& trace = run.processes[entry.member->process];
  const OperationText& operation = *entry.operation;
  const std::string function = call_name(trace, operation.call);
  const bool done = finished(trace, operation);
  out.begin_dict();
  write_frames(trace, operation.stack, out);
  out.key_integer("record_id", number);
  out.key_integer("pg_id", entry.group);
  out.text("process_group");
  out.begin_tuple();
  out.text(group_name(*entry.communicator));
  out.text(entry.communicator->name);
  out.end_tuple();
  out.key_text("thread_name", trace.threads.empty() ? "" : trace.threads.front().name);
  out.key_text("thread_id",
               trace.threads.empty() ? "0" : std::to_string(trace.threads.front().tid));
  out.key_integer("collective_seq_id", static_cast<int64_t>(entry.collective));
  out.key_integer("p2p_seq_id", static_cast<int64_t>(entry.between_peers));
  out.key_integer("op_id", static_cast<int64_t>(operation.index) + 1);
  out.key_text("profiling_name", name_of(entry, function));
  out.key_integer("time_created_ns", operation.enter);
  write_data(entry, function, out);
  out.key_text("state", state_name(trace, operation));
  out.key_none("time_discovered_started_ns");
  out.key_none("time_discovered_completed_ns");
  out.key_boolean("retired", done);
  out.key_integer("timeout_ms", kUsualTimeoutMs);
  out.key_boolean("is_p2p", !operation.collective);
  out.end_dict();
}

}  // namespace

std::string flight_recorder_dump(const Run& run, const RankState& state) {
  PickleWriter out;
  const auto& facts = trace_of(run, state).facts;
  const auto version = facts.find("nccl-version");
  out.begin_dict();
  out.key_text("version", "2.9");
  write_groups(run, state.rank, out);
  out.key_text("nccl_version", version == facts.end() ? "unknown" : version->second);
  write_status(run, state.rank, out);
  out.text("entries");
  out.begin_list();
  int64_t number = 0;
  for (const Entry& entry : entries_of(run, state.rank)) {
    write_entry(run, entry, number++, out);
  }
  out.end_list();
  out.end_dict();
  return out.finish();
}

}  // namespace traintrace
