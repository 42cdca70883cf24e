#include "analyzer/importers/kineto.h"

#include <simdjson.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/importers/decimal_ns.h"
#include "analyzer/importers/event_array.h"
#include "analyzer/importers/kineto_event.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

namespace json = simdjson::ondemand;
using namespace kineto;
static_assert(EventArray::kPadding >= simdjson::SIMDJSON_PADDING);

// With any time of an event it makes one that can be added to others.
constexpr int64_t kMostBaseNs = int64_t{1} << 61;
constexpr int64_t kMostDurationNs = 100'000'000'000'000'000;

struct Frame {
  Span span;
  uint32_t thread;
  uint32_t name;
};

class Import {
 public:
  explicit Import(KinetoTrace& trace) : trace_(trace) {}

  void add_piece(std::string_view piece, uint64_t offset) {
    json::document document;
    const simdjson::padded_string_view text(piece.data(), piece.size(),
                                            piece.size() + EventArray::kPadding);
    if (const auto error = parser_.iterate(text).get(document); error != simdjson::SUCCESS) {
      return expected_json(offset, error);
    }
    try {
      add_events(document.get_array());
    } catch (const simdjson::simdjson_error& error) {
      const char* at = nullptr;
      const bool known = document.current_location().get(at) == simdjson::SUCCESS;
      const auto within = known ? static_cast<uint64_t>(at - piece.data()) : 0;
      expected_json(offset + within, error.error());
    }
  }

  void add_rest(const std::string& rest);
  void finish();
  void complain(uint64_t offset, std::string message) {
    trace_.errors.push_back({trace_.timeline.source, offset, std::move(message), false, false});
  }

 private:
  void expected_json(uint64_t offset, simdjson::error_code error) {
    complain(offset, std::string("expected JSON: ") + simdjson::error_message(error));
  }
  void add_events(json::array events) {
    for (auto element : events) {
      ++trace_.events;
      const Event event = read_event(element.get_object());
      if (event.phase == "X") {
        add(event);
      }
    }
  }
  using Ids = std::unordered_map<std::string, uint32_t>;

  void add(const Event& event);
  void add_work(const Event& event, WorkKind kind);
  void add_call(const Event& event, HostCallKind kind);
  std::optional<Span> span_of(const Event& event);
  static uint32_t id_of(std::string_view name, Ids& ids, std::vector<std::string>& names);
  void add_note(const Event& event);
  void add_frame(const Event& event);
  uint32_t thread_of(const Event& event) {
    return id_of(std::string(event.pid) + ' ' + std::string(event.tid), threads_,
                 trace_.timeline.threads);
  }
  void find_blocking_copies();
  void find_sites();

  KinetoTrace& trace_;
  json::parser parser_;
  Ids names_, threads_;
  std::vector<Frame> frames_;
  uint64_t without_time_ = 0;
};

uint32_t Import::id_of(std::string_view name, Ids& ids, std::vector<std::string>& names) {
  const auto [entry, is_new] =
      ids.try_emplace(std::string(name), static_cast<uint32_t>(names.size()));
  if (is_new) {
    names.emplace_back(name);
  }
  return entry->second;
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
  } else if (is_range(event.category)) {
    if (const std::optional<HostCallKind> kind = kind_of_range(event)) {
      add_call(event, *kind);
    } else if (event.name.starts_with("ProfilerStep#")) {
      if (const std::optional<Span> span = span_of(event)) {
        trace_.timeline.step_starts.push_back(span->begin_ns);
      }
    } else if (event.category == "python_function" && is_user_frame(event.name)) {
      add_frame(event);
    }
  }
}

void Import::add_frame(const Event& event) {
  if (const std::optional<Span> span = span_of(event)) {
    frames_.push_back({*span, thread_of(event), id_of(event.name, names_, trace_.timeline.names)});
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
  constexpr int64_t kMostRanks = 1 << 24;
  note.group_size =
      static_cast<int32_t>(std::clamp<int64_t>(event.group_size.value_or(-1), -1, kMostRanks));
  note.sequence = event.sequence.value_or(-1);
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
  const int64_t stream = event.stream.value_or(number_of<int64_t>(event.tid).value_or(-1));
  trace_.timeline.work.push_back({span->begin_ns, span->end_ns, event.correlation.value_or(0),
                                  id_of(event.name, names_, trace_.timeline.names),
                                  static_cast<int32_t>(stream), static_cast<int32_t>(device), kind,
                                  shape_of(event)});
  if (kind == WorkKind::kCommunication) {
    add_note(event);
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
       id_of(event.name, names_, trace_.timeline.names), thread_of(event), kind});
}

// cudaMemcpyAsync and the like block where the host's side is pageable, which only the name of the
// GPU's side of it says.
void Import::find_blocking_copies() {
  std::unordered_set<uint64_t> pageable;
  for (const GpuWork& work : trace_.timeline.work) {
    if (work.correlation != 0 && work.kind == WorkKind::kMemory &&
        trace_.timeline.names[work.name].find("Pageable") != std::string::npos) {
      pageable.insert(work.correlation);
    }
  }
  for (HostCall& call : trace_.timeline.calls) {
    if (call.kind == HostCallKind::kOther && pageable.contains(call.correlation)) {
      call.kind = HostCallKind::kBlocking;
    }
  }
}

// The innermost of the user's frames around each call.
void Import::find_sites() {
  std::stable_sort(frames_.begin(), frames_.end(), [](const Frame& a, const Frame& b) {
    return a.span.begin_ns != b.span.begin_ns ? a.span.begin_ns < b.span.begin_ns
                                              : a.span.end_ns > b.span.end_ns;
  });
  std::vector<std::vector<const Frame*>> open(trace_.timeline.threads.size());
  auto next = frames_.begin();
  for (HostCall& call : trace_.timeline.calls) {
    for (; next != frames_.end() && next->span.begin_ns <= call.start_ns; ++next) {
      std::vector<const Frame*>& stack = open[next->thread];
      while (!stack.empty() && stack.back()->span.end_ns <= next->span.begin_ns) {
        stack.pop_back();
      }
      stack.push_back(&*next);
    }
    std::vector<const Frame*>& stack = open[call.thread];
    while (!stack.empty() && stack.back()->span.end_ns <= call.start_ns) {
      stack.pop_back();
    }
    call.site = stack.empty() ? kNoName : stack.back()->name;
  }
}

std::optional<int> small_number(json::value value) {
  constexpr int kMost = 1 << 20;  // more ranks than any job has
  const std::optional<int> number = number_of<int>(token_of(value));
  return number && *number >= 0 && *number <= kMost ? number : std::nullopt;
}

// Field by field: after an error of one lookup simdjson must not be asked for another.
void read_job(json::value value, Timeline& timeline) {
  json::object job;
  if (value.get_object().get(job) != simdjson::SUCCESS) {
    return;
  }
  for (auto field : job) {
    const json::raw_json_string key = field.key();
    if (key == "rank") {
      timeline.rank = small_number(field.value());
    } else if (key == "world_size") {
      timeline.world_size = small_number(field.value());
    }
  }
}

void Import::add_rest(const std::string& rest) {
  const simdjson::padded_string text(rest);
  json::document document;
  json::object object;
  if (parser_.iterate(text).get(document) != simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS) {
    return;  // nothing but events
  }
  try {
    for (auto field : object) {
      const json::raw_json_string key = field.key();
      if (key == "baseTimeNanoseconds") {
        const int64_t base = number_of<int64_t>(token_of(field.value())).value_or(0);
        trace_.timeline.base_ns = std::clamp(base, -kMostBaseNs, kMostBaseNs);
      } else if (key == "distributedInfo") {
        read_job(field.value(), trace_.timeline);
      }
    }
  } catch (const simdjson::simdjson_error& error) {
    complain(0, std::string("expected JSON beside the events: ") + error.what());
  }
}

void Import::finish() {
  std::stable_sort(trace_.timeline.work.begin(), trace_.timeline.work.end(),
                   [](const GpuWork& a, const GpuWork& b) { return a.start_ns < b.start_ns; });
  std::stable_sort(trace_.timeline.calls.begin(), trace_.timeline.calls.end(),
                   [](const HostCall& a, const HostCall& b) { return a.start_ns < b.start_ns; });
  std::sort(trace_.timeline.step_starts.begin(), trace_.timeline.step_starts.end());
  std::stable_sort(trace_.timeline.collectives.begin(), trace_.timeline.collectives.end(),
                   [](const CollectiveNote& a, const CollectiveNote& b) {
                     return a.correlation < b.correlation;
                   });
  find_blocking_copies();
  find_sites();
  if (without_time_ != 0) {
    complain(0, std::to_string(without_time_) + " events have no usable time");
  }
}

// By its first bytes: cheap, for folders of thousands of other files.
bool may_be_json(const std::string& path) {
  std::array<char, 64> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  const std::string_view text(bytes.data(), static_cast<size_t>(file.gcount()));
  const size_t first = text.find_first_not_of(" \t\r\n");
  return text.starts_with("\x1f\x8b") || first == text.npos || text[first] == '{';
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

bool looks_like_kineto(const std::string& path) {
  if (!may_be_json(path)) {
    return false;
  }
  constexpr size_t kLook = 64 << 10;
  Result<TextFile> file = TextFile::open(path);
  std::string text;
  if (!file || file->read(text, kLook)) {
    return false;
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{' &&
         (text.find("\"traceEvents\"") != text.npos || text.find("\"schemaVersion\"") != text.npos);
}

std::vector<std::string> find_kineto(std::span<const std::string> arguments) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  for (const std::string& argument : arguments) {
    std::error_code none;
    if (fs::is_regular_file(argument, none) && looks_like_kineto(argument)) {
      found.push_back(argument);
    }
    if (!fs::is_directory(argument, none)) {
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(argument, none)) {
      if (entry.is_regular_file(none) && looks_like_kineto(entry.path())) {
        found.push_back(entry.path());
      }
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

KinetoTrace read_kineto(const std::string& path) {
  KinetoTrace trace;
  trace.timeline.source = path;
  trace.timeline.host = host_of_name(path);
  Result<TextFile> file = TextFile::open(path);
  if (!file) {
    trace.errors.push_back(file.error());
    return trace;
  }
  EventArray array(std::move(*file));
  Import import(trace);
  while (const std::optional<std::string_view> piece = array.next()) {
    import.add_piece(*piece, array.piece_offset());
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
