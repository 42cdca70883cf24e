#include "analyzer/importers/flight/flight_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>

#include "analyzer/importers/flight/flight_entry.h"
#include "analyzer/importers/flight/flight_messages.h"
#include "analyzer/importers/flight/flight_parts.h"
#include "analyzer/importers/flight/flight_stacks.h"
#include "analyzer/importers/flight/flight_status.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/thresholds.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

constexpr size_t kMostGroups = 1 << 16;

class DumpBuilder {
 public:
  DumpBuilder(const Value& root, const std::string& file) : root_(root) {
    dump_.trace.source = file;
  }

  FlightDump build() {
    add_facts();
    add_groups();
    add_entries();
    status_ = add_flight_status(root_.find("pg_status"), dump_.groups);
    finish();
    return std::move(dump_);
  }

 private:
  void add_facts() {
    ProcessTrace& trace = dump_.trace;
    trace.facts["source"] = "flight-recorder";
    for (const auto& [key, fact] : {std::pair("version", "flight-recorder-version"),
                                    std::pair("nccl_version", "nccl-version"),
                                    std::pair("comm_lib_version", "nccl-version")}) {
      if (const Value* value = root_.find(key); value != nullptr && !value->as_text().empty()) {
        trace.facts[fact] = value->as_text();
      }
    }
    for (const char* key : {"rank", "global_rank"}) {
      if (const auto rank = flight_number(root_.find(key)); rank && *rank < kMostRanks) {
        dump_.rank = static_cast<int>(*rank);
      }
    }
    if (const Value* host = root_.find("host_name")) {
      trace.host = host->as_text();
    }
  }

  size_t group_of(std::string_view name, std::string_view description) {
    const auto [at, is_new] = by_name_.try_emplace(std::string(name), dump_.groups.size());
    if (is_new) {
      FlightGroup& group = dump_.groups.emplace_back();
      group.name = name;
      CommunicatorText& text = dump_.trace.communicators.emplace_back();
      // All groups of a job may well be called "undefined", or as their backend.
      text.name = description.empty() || description == "undefined" ? fmt::format("group {}", name)
                                                                    : std::string(description);
      text.origin = format::kInitRank;
      text.flags = format::kInitDone;
    }
    return at->second;
  }

  void add_groups() {
    const Value* config = root_.find("pg_config");
    const std::span<const Value> pairs =
        config == nullptr ? std::span<const Value>() : config->pairs();
    for (size_t i = 0; i + 1 < std::min(pairs.size(), 2 * kMostGroups); i += 2) {
      const Value* description = pairs[i + 1].find("desc");
      const Value* ranks = pairs[i + 1].find("ranks");
      const size_t index =
          group_of(pairs[i].as_text(), description == nullptr ? "" : description->as_text());
      if (ranks != nullptr) {
        dump_.groups[index].ranks = flight_ranks(ranks->as_text());
      }
    }
  }

  void add_entries() {
    const Value* all = root_.find("entries");
    const std::span<const Value> entries = all == nullptr ? std::span<const Value>() : all->list();
    if (dump_.groups.size() == 1) {  // most jobs: room for all at once
      constexpr size_t kMostAtOnce = 1 << 16;
      dump_.trace.communicators.front().recent.reserve(std::min(entries.size(), kMostAtOnce));
    }
    size_t strange = 0;
    size_t ended_unseen = 0;  // before the last one
    for (const Value& value : entries) {
      if (value.kind() != Value::Kind::kDict) {
        ++strange;
        continue;
      }
      FlightEntry entry = entry_reader_.read(value);
      keep_in_order(entry);
      if (&value == &entries.back() && ended_unseen == 0) {
        doubt_end(entry);
      }
      ended_unseen += entry.finished() && !entry.retired ? 1 : 0;
      add_entry(entry);
    }
    if (strange != 0) {
      dump_.whole = false;
      dump_.trace.errors.push_back(
          {dump_.trace.source, 0,
           fmt::format("expected dictionaries as entries, found {} others", strange)});
    }
  }

  // The event that ends an operation is recorded when the call to NCCL has returned, and one that
  // was not recorded yet reads as complete.  So of a rank whose host is blocked in that call, as it
  // is when its peer does not answer a first message, the dump says that the last operation is
  // complete; the watchdog, which retires others at once, has never seen it.
  void doubt_end(FlightEntry& entry) {
    constexpr TimeNs kWatchdogLate = 1'000'000'000;  // it looks ten times as often
    if (entry.finished() && !entry.retired && entry.started == 0 &&
        elapsed(entry.created, entry.completed) >= kWatchdogLate) {
      dump_.made = std::max(dump_.made, entry.completed);
      dump_.last = std::max(dump_.last, entry.completed);
      entry.state = "scheduled";
      entry.completed = 0;
    }
  }

  // Entries are in the order in which they were issued, which their times must not contradict: they
  // may go back a little where a clock was set, or where parts are noted before what they are of.
  void keep_in_order(FlightEntry& entry) {
    constexpr int64_t kMostSetBack = 1'000'000'000;
    if (entry.created != 0 && entry.created <= last_created_ &&
        last_created_ - entry.created < kMostSetBack) {
      entry.created = last_created_ + 1;
    }
    last_created_ = entry.created != 0 ? entry.created : last_created_;
  }

  void add_entry(const FlightEntry& entry) {
    dump_.whole = dump_.whole && entry.record_id == static_cast<int64_t>(dump_.trace.records);
    dump_.begins = dump_.trace.records == 0 ? entry.record_id <= 0 : dump_.begins;
    const bool follows = static_cast<uint64_t>(entry.record_id) == last_entry_id_ + 1;
    dump_.active_only = dump_.active_only || (dump_.trace.records != 0 && !follows);
    last_entry_id_ = static_cast<uint64_t>(entry.record_id);
    ++dump_.trace.records;
    // Before 1.2 only the number within the process is there.
    const size_t index =
        entry.group.data() == last_group_.data() && !entry.group.empty() ? last_index_
        : entry.group.empty() ? group_of(fmt::format("number {}", entry.group_number), "")
                              : group_of(entry.group, entry.description);
    if (dump_.groups.size() > kMostGroups) {
      dump_.whole = false;
      return;
    }
    last_group_ = entry.group;
    last_index_ = index;
    FlightGroup& group = dump_.groups[index];
    if (!group.recorded && follows_others(entry)) {
      dump_.begins = dump_.whole = false;
    }
    group.recorded = true;
    group.number = std::max(group.number, entry.group_number);
    group.with_peers = group.with_peers || entry.between_peers || entry.peer_sequence > 0;
    note_times(entry);
    CommunicatorText& text = dump_.trace.communicators[index];
    const bool closes = parts_.add(index, entry, text.recent.size());
    note_message(entry, index, follows, closes);
    if (closes) {
      close_parts(entry, text);
    } else if (is_closing_alone(entry, text)) {
      add_closing_alone(entry, index);
    } else if (entry.between_peers) {
      add_between_peers(entry, index);
    } else {
      add_collective(entry, index);
    }
  }

  // The first entry of a group has a number that says there were calls of the group before it: the
  // ring was emptied, or what wrote the dump numbers its records anew.  A number of several
  // collectives called as one may be that of the last of them, and that of the collective before a
  // message that of a batch.
  static bool follows_others(const FlightEntry& entry) {
    const bool counts_once = !FlightParts::is_closing(entry) && !entry.name.ends_with("_oop");
    return counts_once && (entry.collective > 1 || entry.peer_sequence > 1);
  }

  // Whether the messages before this entry were issued as one with others is known once it is seen
  // what follows them without a gap.
  void note_message(const FlightEntry& entry, size_t index, bool follows, bool closes) {
    const bool goes_on = follows && entry.between_peers && !open_messages_.empty() &&
                         open_group_ == index && open_number_ == entry.peer_sequence;
    if (!goes_on) {
      if (follows && !closes) {
        dump_.single_messages[open_group_].insert(open_messages_.begin(), open_messages_.end());
      }
      open_messages_.clear();
    }
    if (entry.between_peers && !closes && !FlightParts::is_closing(entry)) {
      open_group_ = index;
      open_number_ = entry.peer_sequence;
      open_messages_.push_back(dump_.trace.communicators[index].recent.size());
    }
  }

  void close_parts(const FlightEntry& entry, CommunicatorText& text) {
    ++groups_closed_;
    for (size_t i = parts_.first_part(); i < text.recent.size(); ++i) {
      FlightParts::close(entry, groups_closed_, text.recent[i]);
    }
    // How much all parts are is not known where the first of them may be lost.
    if (!dump_.whole && text.recent.size() == 1 && text.recent.front().collective) {
      if ((text.recent.front().flags & format::kFinished) != 0) {
        text.recent.clear();
        return;
      }
      text.recent.front().count = 0;
      text.recent.front().data_type = -1;
      text.recent.front().flags |= format::kUntracked;
    }
  }

  // What it closes is lost: the messages, or how much the collectives are.
  bool is_closing_alone(const FlightEntry& entry, const CommunicatorText& text) const {
    return FlightParts::is_closing(entry) &&
           (entry.between_peers || (!dump_.whole && text.recent.empty()));
  }

  // It may have been fused, too: one entry that has no parts.
  void add_closing_alone(const FlightEntry& entry, size_t index) {
    CommunicatorText& text = dump_.trace.communicators[index];
    if (entry.between_peers || entry.name == "coalesced") {
      text.collectives = std::max(text.collectives, sequence_of(entry));
      if (dump_.whole || entry.finished() || entry.retired) {
        return;
      }
      OperationText operation = operation_of(entry, text);
      operation.call = call_of("ncclGroupEnd", "send-recv");
      operation.collective = false;
      text.recent.push_back(operation);
      return;
    }
    if (entry.finished() || entry.retired) {
      text.collectives = std::max(text.collectives, sequence_of(entry));
      return;
    }
    add_collective(entry, index);
    if (!text.recent.empty() && text.recent.back().sequence == sequence_of(entry)) {
      text.recent.back().count = 0;
      text.recent.back().data_type = -1;
      text.recent.back().flags |= format::kUntracked;
    }
  }

  // What is not retired was looked at by nobody before the dump was made: that it has started, or
  // is complete, was seen then.  Retiring an entry looks once at both its start and its end.
  void note_times(const FlightEntry& entry) {
    for (const int64_t time : {entry.created, entry.started, entry.completed}) {
      if (time > 0) {
        dump_.first = dump_.first == 0 ? time : std::min(dump_.first, time);
        dump_.last = std::max(dump_.last, time);
      }
    }
    times_starts_ = times_starts_ || entry.started > 0;
    if (!entry.retired) {
      dump_.made = std::max({dump_.made, entry.started, entry.completed});
    } else if (entry.started > 0 && entry.completed > 0) {
      const TimeNs apart = elapsed(entry.started, entry.completed);
      ++dump_.retired;
      dump_.apart += apart > kSeenAtOnceNs ? 1 : 0;
      dump_.long_apart += apart > kSeenApartNs ? 1 : 0;
    }
  }

  uint32_t call_of(std::string_view name, const char* kind) {
    const auto [at, is_new] =
        calls_.try_emplace(name, static_cast<uint32_t>(dump_.trace.calls.size()));
    if (is_new) {
      dump_.trace.calls.push_back({std::string(name), "nccl", kind, {}});
    }
    return at->second;
  }

  // What all operations have in common.
  OperationText operation_of(const FlightEntry& entry, CommunicatorText& text) {
    OperationText operation;
    operation.index = text.operations++;
    operation.stack = stacks_.add(entry.frames, dump_.trace);
    operation.enter = operation.leave = entry.created;
    operation.completed = entry.completed;
    operation.flags = format::kLaunched | (entry.finished() ? format::kFinished : 0);
    if (!entry.finished() && !entry.retired) {
      operation.gpu = entry.state == "started" ? GpuState::kReached : GpuState::kPending;
    }
    text.last = std::max(text.last, entry.created);
    last_entry_ = entry;
    last_stack_ = operation.stack;
    return operation;
  }

  static int type_of(const Value* types) {
    const std::span<const Value> names =
        types == nullptr ? std::span<const Value>() : types->list();
    return names.empty() ? -1 : flight_data_type(names.front().as_text());
  }

  void add_between_peers(const FlightEntry& entry, size_t index) {
    CommunicatorText& text = dump_.trace.communicators[index];
    const auto peers = flight_peers(entry.name);
    text.collectives = std::max(text.collectives, sequence_of(entry));
    if (!peers) {
      dump_.whole = false;
      return;
    }
    OperationText operation = operation_of(entry, text);
    operation.call = last_call_ = call_of(peers->receive ? "ncclRecv" : "ncclSend", "send-recv");
    operation.collective = false;
    operation.receive = peers->receive;
    operation.peer = peers->peer;
    operation.count = flight_elements(entry.input_sizes);
    operation.data_type = type_of(entry.input_types);
    text.rank = text.rank < 0 ? peers->own : text.rank;
    messages_.add(index, operation);
    text.recent.push_back(operation);
  }

  static uint64_t sequence_of(const FlightEntry& entry) {
    return entry.collective < 0 || entry.collective > kMostFlightNumber
               ? 0
               : static_cast<uint64_t>(entry.collective);
  }

  // Its entry has the number of the last of them, and the one before it that of the call before.
  void note_coalesced(size_t index, uint64_t sequence, uint64_t more) {
    std::vector<CoalescedCall>& all = dump_.groups[index].coalesced;
    if (more != 0) {
      all.push_back({sequence, more + (all.empty() ? 0 : all.back().more)});
    }
  }

  void add_collective(const FlightEntry& entry, size_t index) {
    CommunicatorText& text = dump_.trace.communicators[index];
    const uint64_t sequence = sequence_of(entry);
    OperationText* const before = text.recent.empty() ? nullptr : &text.recent.back();
    const bool of_group = before != nullptr && before->collective && before->sequence == sequence;
    if (sequence == 0 || (sequence <= text.collectives && !of_group)) {
      return;
    }
    if (FlightParts::is_closing(entry) && text.collectives != 0 && !of_group) {
      note_coalesced(index, sequence, sequence - text.collectives - 1);
    }
    const FlightFunction function = flight_function(entry.name);
    const bool known = function.count == FlightFunction::Count::kInput ||
                       function.count == FlightFunction::Count::kOutput;
    const bool input = function.count == FlightFunction::Count::kInput;
    const uint64_t count =
        known ? flight_elements(input ? entry.input_sizes : entry.output_sizes) : 0;
    if (of_group) {
      before->count += count;
      before->flags |= format::kGrouped;
      return;
    }
    OperationText operation = operation_of(entry, text);
    if (entry.name.ends_with("_oop")) {  // always one of several
      operation.flags |= format::kGrouped;
    }
    operation.call = last_call_ = call_of(function.function, "collective");
    operation.as = function.as;
    operation.sequence = sequence;
    operation.count = count;
    operation.data_type = type_of(known && !input ? entry.output_types : entry.input_types);
    text.collectives = sequence;
    text.recent.push_back(operation);
    if (function.count == FlightFunction::Count::kExchanged && !entry.finished() &&
        !entry.retired && says_all_sizes()) {
      dump_.groups[index].exchanges.push_back({operation.index, flight_elements(entry.input_sizes),
                                               flight_elements(entry.output_sizes)});
    }
  }

  // Before 2.4 an all-to-all of lists had the sizes of their first tensors.
  bool says_all_sizes() const {
    const auto version = dump_.trace.facts.find("flight-recorder-version");
    const std::string_view text =
        version == dump_.trace.facts.end() ? std::string_view() : version->second;
    int major = 0;
    int minor = 0;
    const char* const end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, major);
    if (first.ec == std::errc() && first.ptr != end) {
      std::from_chars(first.ptr + 1, end, minor);
    }
    return major > 2 || (major == 2 && minor >= 4);
  }

  // Where starts are noted, what has none has not begun: its stream has not come to it.
  void tell_starts(ProcessTrace& trace) const {
    const bool seen = times_starts_ || has_counted_starts(dump_);
    for (CommunicatorText& text : trace.communicators) {
      for (OperationText& operation : text.recent) {
        if (seen && operation.gpu == GpuState::kPending) {
          operation.gpu = GpuState::kEnqueued;
        }
      }
    }
  }

  // Of entries that are in flight for certain, where the one that tells it of parts may be left
  // out.
  TimeNs first_limit_of_certain() const {
    TimeNs first = 0;
    for (size_t i = 0; i < dump_.groups.size(); ++i) {
      const auto& recent = dump_.trace.communicators[i].recent;
      const auto single = dump_.single_messages.find(i);
      for (size_t j = 0; j < recent.size(); ++j) {
        const bool is_part = (recent[j].flags & format::kGrouped) != 0 || !recent[j].collective;
        const bool is_single = single != dump_.single_messages.end() && single->second.contains(j);
        const bool certain = !is_part || recent[j].group != 0 || is_single;
        if (certain && (recent[j].flags & format::kFinished) == 0) {
          first = first == 0 ? recent[j].enter : std::min(first, recent[j].enter);
        }
      }
    }
    return parts_.deadline() == 0 || first == 0 ? 0 : first + parts_.limit();
  }

  void finish() {
    ProcessTrace& trace = dump_.trace;
    const bool said = status_.said || trace.records > 0;
    parts_.finish();
    dump_.deadline = parts_.deadline();
    dump_.limit = parts_.limit();
    trace.first_limit = dump_.deadline;
    tell_starts(trace);
    if (dump_.active_only) {
      trace.first_limit = dump_.deadline = first_limit_of_certain();
    }
    if (said && (parts_.pending() != 0 || !status_.busy)) {
      trace.facts["operations-in-flight"] = std::to_string(parts_.pending());
    }
    messages_.put(trace);
    dump_.whole = dump_.whole && messages_.countable();
    if (trace.records == 0 || last_call_ >= trace.calls.size()) {
      return;
    }
    ThreadText thread;
    thread.serial = 1;
    thread.name = last_entry_.thread;
    thread.events = trace.records;
    thread.last_call = last_call_;
    thread.last_call_time = last_entry_.created;
    thread.last_stack = last_stack_;
    trace.threads.push_back(thread);
  }

  const Value& root_;
  FlightDump dump_;
  FlightEntryReader entry_reader_;
  FlightStacks stacks_;
  FlightMessages messages_;
  FlightParts parts_;
  std::vector<size_t> open_messages_;  // places of the last ones, which may be closed yet
  size_t open_group_ = 0;
  int64_t open_number_ = 0;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string_view, uint32_t> calls_;
  std::string_view last_group_;
  size_t last_index_ = 0;
  FlightEntry last_entry_;
  uint64_t last_entry_id_ = 0;
  int64_t last_created_ = 0;
  uint32_t groups_closed_ = 0;
  uint32_t last_call_ = 0;
  uint32_t last_stack_ = 0;
  bool times_starts_ = false;
  FlightStatus status_;
};

}  // namespace

bool is_flight_dump(const Value& root) {
  const auto has = [&](std::string_view key) { return root.find(key) != nullptr; };
  return has("version") && (has("entries") || has("pg_config") || has("pg_status"));
}

Result<FlightDump> flight_dump(const Value& root, const std::string& file) {
  if (root.kind() == Value::Kind::kList && !root.list().empty() &&
      root.list()[0].find("profiling_name") != nullptr) {
    return ReadError{file, 0,
                     "expected a version: this dump, a list of entries alone, is of PyTorch 2.2 or "
                     "earlier, and those of 2.3 and later are read",
                     true, false};
  }
  if (!is_flight_dump(root)) {
    return ReadError{file, 0, kOfNoKnownKind, true, false};
  }
  const std::string_view version = root.find("version")->as_text();
  if (!version.starts_with("1.") && !version.starts_with("2.")) {
    return ReadError{file, 0,
                     fmt::format("expected version 1.x or 2.x of a Flight Recorder dump, not '{}'",
                                 version.substr(0, 32)),
                     true, false};
  }
  const Value* entries = root.find("entries");
  if (entries != nullptr && entries->kind() != Value::Kind::kList) {
    return ReadError{file, 0, "expected a list as entries", true, false};
  }
  return DumpBuilder(root, file).build();
}

}  // namespace traintrace
