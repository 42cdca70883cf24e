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

// What a ring would still hold: one for all communicators, in the order of the calls.
struct Ring {
  std::vector<Entry> entries;
  uint64_t overwritten = 0;  // records before these
};

std::string group_name(const Communicator& communicator) {
  return fmt::format("{:016x}", communicator.id.value);
}

// How many messages the member had issued before the operations that are kept.
uint64_t messages_before_kept(const Run& run, const Member& member) {
  uint64_t all = 0;
  for (const PeerText& peer : run.processes[member.process].peers) {
    all += peer.communicator == member.element + 1 ? peer.operations : 0;
  }
  const std::vector<OperationText>& recent = text_of(run, member).recent;
  const auto kept = static_cast<uint64_t>(
      std::count_if(recent.begin(), recent.end(),
                    [](const OperationText& operation) { return !operation.collective; }));
  return all - std::min(all, kept);
}

uint64_t collectives_before_kept(const CommunicatorText& text) {
  const auto first =
      std::find_if(text.recent.begin(), text.recent.end(), [](const OperationText& operation) {
        return operation.sequence != 0 && operation.collective;
      });
  return first == text.recent.end() ? text.collectives : first->sequence - 1;
}

void add_entries(const Run& run, Entry entry, std::vector<Entry>& entries) {
  entry.between_peers = messages_before_kept(run, *entry.member);
  entry.collective = collectives_before_kept(text_of(run, *entry.member));
  for (const OperationText& operation : text_of(run, *entry.member).recent) {
    entry.operation = &operation;
    entry.collective = operation.collective ? operation.sequence : entry.collective;
    entry.between_peers += operation.collective ? 0 : 1;
    if ((operation.flags & (format::kCaptured | format::kFailed)) == 0) {
      entries.push_back(entry);
    }
  }
}

// Each communicator keeps its newest operations.  From when on all of them keep all, nothing is
// missing between two entries; what is kept of before that is as if it were overwritten.
Ring ring_of(const Run& run, Rank rank) {
  Ring ring;
  TimeNs whole_from = 0;
  int64_t group = 0;
  for (const Communicator& communicator : run.communicators) {
    const Member* member = member_of(communicator, rank);
    if (member == nullptr) {
      continue;
    }
    const CommunicatorText& text = text_of(run, *member);
    if (!text.recent.empty() && text.recent.front().index != 0) {
      ring.overwritten += text.recent.front().index;
      whole_from = std::max(whole_from, text.recent.front().enter);
    }
    add_entries(run, {&communicator, member, nullptr, group++}, ring.entries);
  }
  ring.overwritten += std::erase_if(
      ring.entries, [&](const Entry& entry) { return entry.operation->enter < whole_from; });
  std::stable_sort(ring.entries.begin(), ring.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.operation->enter, a.group) < std::tie(b.operation->enter, b.group);
  });
  return ring;
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

// What of an operation PyTorch would have known.
struct EntryState {
  const char* name = "scheduled";
  bool retired = false;  // with another state than "completed": not followed any further
};

// An operation of which nothing tells whether it is complete is not pending: as with PyTorch's when
// a work ends unseen, nobody follows it any more.
EntryState state_of_entry(const ProcessTrace& trace, const OperationText& operation,
                          const BlockedOperations& blocked) {
  switch (gpu_state(trace, operation)) {
    case GpuState::kFinished:
      return {"completed", true};
    case GpuState::kReached:
      return {"started", false};
    case GpuState::kEnqueued:
    case GpuState::kPending:
      return {"scheduled", false};
    case GpuState::kUnknown:
    case GpuState::kAborted:
      break;
  }
  return {"scheduled", finished(trace, operation) || !blocked.contains(&operation)};
}

void write_entry(const Run& run, const Entry& entry, uint64_t number,
                 const BlockedOperations& blocked, PickleWriter& out) {
  const ProcessTrace& trace = run.processes[entry.member->process];
  const OperationText& operation = *entry.operation;
  const std::string function = call_name(trace, operation.call);
  const EntryState state = state_of_entry(trace, operation, blocked);
  out.begin_dict();
  write_frames(trace, operation.stack, out);
  out.key_integer("record_id", static_cast<int64_t>(number));
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
  out.key_text("state", state.name);
  out.key_none("time_discovered_started_ns");
  out.key_none("time_discovered_completed_ns");
  out.key_boolean("retired", state.retired);
  out.key_integer("timeout_ms", kUsualTimeoutMs);
  out.key_boolean("is_p2p", !operation.collective);
  out.end_dict();
}

}  // namespace

std::string flight_recorder_dump(const Run& run, const RankState& state,
                                 const BlockedOperations& blocked) {
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
  const Ring ring = ring_of(run, state.rank);
  uint64_t number = ring.overwritten;
  for (const Entry& entry : ring.entries) {
    write_entry(run, entry, number++, blocked, out);
  }
  out.end_list();
  out.end_dict();
  return out.finish();
}

}  // namespace traintrace
