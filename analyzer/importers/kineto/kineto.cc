#include "analyzer/importers/kineto/kineto.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/importers/kineto/decimal_ns.h"
#include "analyzer/importers/kineto/enclosing.h"
#include "analyzer/importers/kineto/event_array.h"
#include "analyzer/importers/kineto/kineto_event.h"
#include "analyzer/importers/kineto/kineto_operators.h"
#include "analyzer/importers/kineto/kineto_rest.h"
#include "analyzer/importers/kineto/kineto_waits.h"
#include "analyzer/importers/kineto/large_tables.h"
#include "analyzer/timeline/collectives/noted_messages.h"
#include "analyzer/timeline/communication_kernels.h"
#include "analyzer/timeline/exposed_copies.h"
#include "analyzer/timeline/rank_evidence.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

namespace json = simdjson::ondemand;
using namespace kineto;
static_assert(EventArray::kPadding >= simdjson::SIMDJSON_PADDING);

constexpr int64_t kMostDeviceNumber = std::numeric_limits<int16_t>::max();
// Of one process.  Each is compared with all calls of the process.
constexpr size_t kMostDevicesOfOne = 128;
constexpr int64_t kMostDurationNs = 100'000'000'000'000'000;

class Import {
 public:
  explicit Import(KinetoTrace& trace) : trace_(trace) {}

  void add_piece(std::string_view piece, uint64_t offset) {
    taken_ = 0;
    if (parse(piece)) {  // something in it is no JSON: each event alone
      add_one_by_one(piece, offset);
    }
  }

  void make_room(double part) {
    kineto::make_room(trace_.timeline.work, part);
    kineto::make_room(trace_.timeline.calls, part);
    frames_.make_room(part);
    operators_.make_room(part);
  }
  void add_rest(const std::string& rest) {
    if (std::string wrong = read_rest(rest, trace_.timeline); !wrong.empty()) {
      complain(0, std::move(wrong));
    }
  }
  void finish();
  void complain(uint64_t offset, std::string message) {
    trace_.errors.push_back({trace_.timeline.source, offset, std::move(message), false, false});
  }

 private:
  struct Failure {
    size_t at = 0;  // where in the text
    simdjson::error_code error = simdjson::SUCCESS;
  };
  std::optional<Failure> parse(std::string_view events);
  void add_one_by_one(std::string_view piece, uint64_t offset);
  void add_alone(std::string_view piece, EventBounds event, uint64_t offset);
  void add_events(json::array events) {
    for (auto element : events) {
      const Event event = read_event(element.get_object());
      ++trace_.events;
      ++taken_;
      if (event.phase == "X") {
        add(event);
      }
    }
  }
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  using Ids = std::unordered_map<std::string, uint32_t, NameHash, std::equal_to<>>;

  void add(const Event& event);
  void add_work(const Event& event, WorkKind kind);
  void add_call(const Event& event, HostCallKind kind);
  std::optional<Span> span_of(const Event& event);
  static uint32_t id_of(std::string_view name, Ids& ids, std::vector<std::string>& names);
  void add_note(const Event& event);
  void add_frame(const Event& event);
  void add_range(const Event& event);
  uint32_t thread_of(const Event& event) {
    return id_of(std::string(event.pid) + ' ' + std::string(event.tid), threads_,
                 trace_.timeline.threads);
  }
  void find_blocking_copies();
  void find_sites();
  void find_contexts();
  void find_communication();

  KinetoTrace& trace_;
  json::parser parser_;
  // Of a kernel, by its name; asked once for each.
  bool communicates(uint32_t name) {
    for (; communicates_.size() <= name;) {
      communicates_.push_back(is_communication(trace_.timeline.names[communicates_.size()]));
    }
    return communicates_[name];
  }
  Ids names_, threads_;
  std::vector<bool> communicates_;
  Ranges frames_, annotations_, modules_;  // of their names
  Operators operators_;
  StreamWaits waits_;
  uint64_t without_time_ = 0;
  size_t taken_ = 0;  // events of the piece
  uint64_t no_json_ = 0;
  std::optional<ReadError> first_no_json_;
  std::set<int64_t> devices_;
  uint64_t on_other_devices_ = 0;
};

// An array of them, with the bytes behind it that simdjson may read.
std::optional<Import::Failure> Import::parse(std::string_view events) {
  const simdjson::padded_string_view text(events.data(), events.size(),
                                          events.size() + EventArray::kPadding);
  json::document document;
  if (const auto error = parser_.iterate(text).get(document); error != simdjson::SUCCESS) {
    return Failure{0, error};
  }
  try {
    add_events(document.get_array());
    return std::nullopt;
  } catch (const simdjson::simdjson_error& error) {
    const char* at = nullptr;
    const bool known = document.current_location().get(at) == simdjson::SUCCESS;
    return Failure{known ? static_cast<size_t>(at - events.data()) : 0, error.error()};
  }
}

// Names of kernels from before PyTorch 1.8.1 have bytes that no JSON has, and paths of Windows are
// written as they are until 2.1: that costs the one event, or only its name.
void Import::add_one_by_one(std::string_view piece, uint64_t offset) {
  const std::vector<EventBounds> events = events_in(piece);
  for (size_t i = taken_; i < events.size(); ++i) {
    add_alone(piece, events[i], offset);
  }
}

// As it is, else without the bytes that may be wrong in a name.
void Import::add_alone(std::string_view piece, EventBounds event, uint64_t offset) {
  std::string array = "[" + std::string(piece.substr(event.begin, event.bytes)) + "]";
  const size_t size = array.size();
  array.resize(size + EventArray::kPadding);
  const std::optional<Failure> failed = parse(std::string_view(array).substr(0, size));
  if (!failed) {
    return;
  }
  std::transform(array.begin(), array.begin() + static_cast<std::ptrdiff_t>(size), array.begin(),
                 [](unsigned char c) {
                   return c < ' ' ? ' ' : c < 0x80 ? static_cast<char>(c) : '?';
                 });
  if (!parse(std::string_view(array).substr(0, size))) {
    return;
  }
  if (++no_json_ == 1) {
    first_no_json_ = {trace_.timeline.source, offset + event.begin + failed->at,
                      "expected JSON: ", false, false};
    first_no_json_->message += simdjson::error_message(failed->error);
  }
}

uint32_t Import::id_of(std::string_view name, Ids& ids, std::vector<std::string>& names) {
  if (const auto known = ids.find(name); known != ids.end()) {
    return known->second;
  }
  const auto id = static_cast<uint32_t>(names.size());
  ids.emplace(name, id);
  names.emplace_back(name);
  return id;
}

std::optional<Span> Import::span_of(const Event& event) {
  const std::optional<int64_t> start = ns_of_microseconds(event.time);
  const std::optional<int64_t> duration =
      event.duration.empty() ? 0 : ns_of_microseconds(event.duration);
  if (!start || !duration || *duration < 0 || *duration > kMostDurationNs) {
    ++without_time_;
    return std::nullopt;
  }
  return Span{*start, *start + *duration};
}

void Import::add(const Event& event) {
  if (const std::optional<WorkKind> work = kind_of(event)) {
    add_work(event, *work);
  } else if (is_call(event.category)) {
    add_call(event, kind_of_call(event));
    waits_.add_call(event);
  } else if (event.category == "cuda_sync") {
    waits_.add(event);
  } else if (is_profiling(event)) {
    if (const std::optional<Span> span = span_of(event)) {
      trace_.timeline.profiling.push_back(*span);
    }
  } else if (is_range(event.category)) {
    if (const std::optional<HostCallKind> kind = kind_of_range(event)) {
      add_call(event, *kind);
    } else if (event.name.starts_with("ProfilerStep#")) {
      if (const std::optional<Span> span = span_of(event)) {
        trace_.timeline.step_starts.push_back(span->begin_ns);
      }
    } else if (event.category == "python_function" && is_user_frame(event.name)) {
      add_frame(event);
    } else {
      add_range(event);
    }
  }
}

void Import::add_range(const Event& event) {
  const RangeKind kind = range_kind(event);
  const std::optional<Span> span = kind == RangeKind::kNone ? std::nullopt : span_of(event);
  if (!span) {
    return;
  }
  const uint32_t thread = thread_of(event);
  const uint32_t name = id_of(event.name, names_, trace_.timeline.names);
  if (kind == RangeKind::kOperator) {
    operators_.add(event, name, *span, thread, trace_.timeline);
  } else {
    (kind == RangeKind::kModule ? modules_ : annotations_).add(thread, *span, name);
  }
}

void Import::add_frame(const Event& event) {
  if (const std::optional<Span> span = span_of(event)) {
    frames_.add(thread_of(event), *span, id_of(event.name, names_, trace_.timeline.names));
  }
}

void Import::add_note(const Event& event) {
  if (event.operation.empty() || !event.correlation) {
    return;
  }
  CollectiveNote note{*event.correlation};
  note.operation = id_of(event.operation, names_, trace_.timeline.names);
  if (!event.group.empty()) {
    note.group = id_of(event.group, names_, trace_.timeline.names);
  }
  if (!event.members.empty()) {
    note.members = id_of(event.members, names_, trace_.timeline.names);
  }
  constexpr int64_t kMostRanks = 1 << 24;
  note.group_size =
      static_cast<int32_t>(std::clamp<int64_t>(event.group_size.value_or(-1), -1, kMostRanks));
  note.sequence = event.sequence.value_or(-1);
  if (is_send(event.operation) || is_receive(event.operation)) {
    const std::optional<int64_t> peer = is_send(event.operation) ? event.to_rank : event.from_rank;
    note.peer = static_cast<int32_t>(std::clamp<int64_t>(peer.value_or(-1), -1, kMostRanks));
  }
  const int64_t size = bytes_of_type(event.data_type);
  const int64_t elements = event.elements.value_or(-1);
  if (size != 0 && elements >= 0 && elements <= std::numeric_limits<int64_t>::max() / size) {
    note.bytes = elements * size;
  }
  trace_.timeline.collectives.push_back(note);
}

// Never 0 where both are known.
uint16_t shape_of(const Event& event) {
  const size_t grid = std::hash<std::string_view>()(event.grid);
  const size_t block = std::hash<std::string_view>()(event.block);
  const bool known = !event.grid.empty() && !event.block.empty();
  return known ? static_cast<uint16_t>((grid * 31 + block) % 65535 + 1) : uint16_t{0};
}

void Import::add_work(const Event& event, WorkKind kind) {
  const std::optional<Span> span = span_of(event);
  if (!span) {
    return;
  }
  const int64_t device = event.device.value_or(number_of<int64_t>(event.pid).value_or(-1));
  if (!devices_.contains(device) && devices_.size() == kMostDevicesOfOne) {
    ++on_other_devices_;
    return;
  }
  devices_.insert(device);
  const int64_t stream = event.stream.value_or(number_of<int64_t>(event.tid).value_or(-1));
  const uint32_t name = id_of(event.name, names_, trace_.timeline.names);
  // PyTorch hands on to a kernel what the operator around its launch says of a collective.
  if (kind == WorkKind::kCompute && (communicates(name) || !event.operation.empty())) {
    kind = WorkKind::kCommunication;
  }
  trace_.timeline.work.push_back({span->begin_ns, span->end_ns, event.correlation.value_or(0), name,
                                  static_cast<int32_t>(stream), static_cast<int32_t>(device), kind,
                                  EndKnown::kExactly, shape_of(event)});
  if (event.correlation) {
    add_told_waits(event.waits, *event.correlation, trace_.timeline);
    add_told_messages(event.messages, *event.correlation, trace_.timeline);
  }
  if (kind == WorkKind::kCommunication) {
    add_note(event);
  } else if (!event.product.empty() && event.correlation) {
    operators_.add_told(event.product, *event.correlation, trace_.timeline);
  }
}

void Import::add_call(const Event& event, HostCallKind kind) {
  const std::optional<Span> span = span_of(event);
  if (!span) {
    return;
  }
  const bool launches = is_call(event.category);
  trace_.timeline.calls.push_back(
      {span->begin_ns, span->end_ns, launches ? event.correlation.value_or(0) : 0,
       id_of(event.name, names_, trace_.timeline.names), thread_of(event), kind,
       static_cast<int16_t>(
           std::clamp<int64_t>(event.device.value_or(-1), -1, kMostDeviceNumber))});
}

// cudaMemcpyAsync and the like block where the host's side is pageable, which only the name of the
// GPU's side of it says.
void Import::find_blocking_copies() {
  std::unordered_set<uint64_t> pageable;
  for (const GpuWork& work : trace_.timeline.work) {
    if (work.correlation != 0 && work.kind == WorkKind::kMemory &&
        is_pageable_copy(trace_.timeline.names[work.name])) {
      pageable.insert(work.correlation);
    }
  }
  for (HostCall& call : trace_.timeline.calls) {
    if (call.kind == HostCallKind::kOther && pageable.contains(call.correlation)) {
      call.kind = HostCallKind::kBlocking;
    }
  }
}

// The innermost of the user's frames around each call, and the one in which its thread was for most
// of the time before.
void Import::find_sites() {
  if (frames_.empty()) {
    return;  // no call has a site
  }
  frames_.sort();
  trace_.timeline.spent_in = spent_in(frames_, trace_.timeline.calls);
  visit_innermost(frames_, trace_.timeline.calls, [](HostCall& call, const Range* frame) {
    call.site = frame == nullptr ? kNoName : frame->what;
  });
  frames_ = {};
}

// Of each kind the innermost range around each call.
void Import::find_contexts() {
  Timeline& timeline = trace_.timeline;
  const auto find = [&](Ranges& ranges, uint32_t CallContext::*member) {
    if (ranges.empty()) {
      return;
    }
    timeline.contexts.resize(timeline.calls.size());
    visit_innermost(ranges, timeline.calls, [&](const HostCall& call, const Range* range) {
      if (range != nullptr) {
        timeline.contexts[static_cast<size_t>(&call - timeline.calls.data())].*member = range->what;
      }
    });
    ranges = {};
  };
  annotations_.sort();
  modules_.sort();
  operators_.sort();  // which takes room for a while: before the contexts do
  find(annotations_, &CallContext::annotation);
  find(modules_, &CallContext::module);
  operators_.find_contexts(timeline);
}

// What operators that move data between ranks launch themselves is communication, whatever its
// name.
void Import::find_communication() {
  Timeline& timeline = trace_.timeline;
  std::vector<bool> moves_data;
  for (const std::string& name : timeline.names) {
    moves_data.push_back(is_communication_operator(name));
  }
  std::unordered_set<uint64_t> launched;
  for (size_t i = 0; i < timeline.contexts.size(); ++i) {
    const uint32_t op = timeline.contexts[i].op;
    if (op != kNoName && moves_data[op] && timeline.calls[i].correlation != 0) {
      launched.insert(timeline.calls[i].correlation);
    }
  }
  for (GpuWork& work : timeline.work) {
    if (work.kind == WorkKind::kCompute && launched.contains(work.correlation)) {
      work.kind = WorkKind::kCommunication;
    }
  }
}

void Import::finish() {
  parser_ = json::parser();
  sort_by_start(trace_.timeline.work);
  sort_by_start(trace_.timeline.calls);
  std::sort(trace_.timeline.step_starts.begin(), trace_.timeline.step_starts.end());
  std::stable_sort(trace_.timeline.collectives.begin(), trace_.timeline.collectives.end(),
                   [](const CollectiveNote& a, const CollectiveNote& b) {
                     return a.correlation < b.correlation;
                   });
  std::sort(trace_.timeline.waits.begin(), trace_.timeline.waits.end());
  std::stable_sort(
      trace_.timeline.messages.begin(), trace_.timeline.messages.end(),
      [](const PeerMessage& a, const PeerMessage& b) { return a.correlation < b.correlation; });
  waits_.finish(trace_.timeline);
  find_blocking_copies();
  find_sites();
  find_contexts();
  find_communication();
  operators_.find_products(trace_.timeline);
  take_rank_of_name(trace_.timeline);
  add_noted_messages(trace_.timeline);
  if (first_no_json_) {
    if (no_json_ > 1) {
      first_no_json_->message +=
          fmt::format("; left out for that: {} of {} events", no_json_, no_json_ + trace_.events);
    }
    trace_.errors.push_back(*first_no_json_);
  }
  if (on_other_devices_ != 0) {
    complain(0,
             fmt::format("expected the work of at most {} GPUs: {} events on others are left out",
                         kMostDevicesOfOne, on_other_devices_));
  }
  if (without_time_ != 0) {
    complain(0, std::to_string(without_time_) + " events have no usable time");
  }
}

// Takes `separator` and the digits behind it off the end; false: there are none.
bool cut_number(std::string& text, char separator) {
  const size_t at = text.rfind(separator);
  const bool is_number = at != text.npos && at + 1 < text.size() &&
                         text.find_first_not_of("0123456789", at + 1) == text.npos;
  text.resize(is_number ? at : 0);
  return is_number;
}

// As PyTorch's handler for TensorBoard names files: HOST_PID.TIME.pt.trace.json; empty: otherwise.
std::string host_of_name(const std::string& path) {
  constexpr std::string_view kEnd = ".pt.trace.json";
  std::string name = std::filesystem::path(path).filename();
  if (name.ends_with(".gz")) {
    name.resize(name.size() - 3);
  }
  if (!name.ends_with(kEnd)) {
    return "";
  }
  name.resize(name.size() - kEnd.size());
  return cut_number(name, '.') && cut_number(name, '_') ? name : "";
}

}  // namespace

KinetoTrace read_kineto(const std::string& path) {
  KinetoTrace trace;
  trace.timeline.source = path;
  trace.timeline.host = host_of_name(path);
  Result<TextFile> file = TextFile::open(path);
  if (!file) {
    trace.errors.push_back(file.error());
    return trace;
  }
  const uint64_t most_events = file->most_events();
  EventArray array(std::move(*file));
  Import import(trace);
  while (const std::optional<std::string_view> piece = array.next()) {
    import.add_piece(*piece, array.piece_offset());
    import.make_room(array.part_read());
    if (trace.events > most_events) {
      trace.errors.push_back({path, array.piece_offset(),
                              "expected no more events than its size allows: the rest is left out",
                              false, true});
      break;
    }
  }
  import.add_rest(array.rest());
  import.finish();
  if (array.error()) {
    trace.errors.push_back(*array.error());
    trace.errors.back().fatal = trace.events == 0;
  }
  return trace;
}

}  // namespace traintrace
