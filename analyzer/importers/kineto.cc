#include "analyzer/importers/kineto.h"

#include <simdjson.h>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/importers/decimal_ns.h"
#include "analyzer/importers/event_array.h"
#include "analyzer/timeline/spans.h"

namespace traintrace {
namespace {

namespace json = simdjson::ondemand;
static_assert(EventArray::kPadding >= simdjson::SIMDJSON_PADDING);

// What an event says of itself; views last as long as its piece.
struct Event {
  std::string_view phase, category, name, time, duration, pid, tid;
  std::optional<uint64_t> correlation;
  std::optional<int64_t> device, stream;
};

std::string_view trimmed(std::string_view token) {
  while (!token.empty() && (token.back() <= ' ' || token.back() == ',')) {
    token.remove_suffix(1);
  }
  return token;
}

template <class Number>
std::optional<Number> number_of(std::string_view token) {
  Number value{};
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  return error == std::errc() && end == token.data() + token.size() ? std::optional(value)
                                                                    : std::nullopt;
}

std::string_view text_of(json::value value) {
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? text : std::string_view();
}

// Numbers as they are written; strings are no numbers here.
std::string_view token_of(json::value value) {
  return trimmed(value.raw_json_token());
}

void read_arguments(json::value value, Event& event) {
  json::object arguments;
  if (value.get_object().get(arguments) != simdjson::SUCCESS) {
    return;
  }
  for (auto field : arguments) {
    const json::raw_json_string key = field.key();
    if (key == "correlation") {
      event.correlation = number_of<uint64_t>(token_of(field.value()));
    } else if (key == "device") {
      event.device = number_of<int64_t>(token_of(field.value()));
    } else if (key == "stream") {
      event.stream = number_of<int64_t>(token_of(field.value()));
    }
  }
}

Event read_event(json::object object) {
  Event event;
  for (auto field : object) {
    const json::raw_json_string key = field.key();
    if (key == "ph") {
      event.phase = text_of(field.value());
    } else if (key == "cat") {
      event.category = text_of(field.value());
    } else if (key == "name") {
      event.name = text_of(field.value());
    } else if (key == "ts") {
      event.time = token_of(field.value());
    } else if (key == "dur") {
      event.duration = token_of(field.value());
    } else if (key == "pid") {
      event.pid = token_of(field.value());
    } else if (key == "tid") {
      event.tid = token_of(field.value());
    } else if (key == "args") {
      read_arguments(field.value(), event);
    }
  }
  return event;
}

// Names of old and new versions.
std::optional<WorkKind> kind_of(const Event& event) {
  const std::string_view category = event.category;
  if (category == "kernel" || category == "Kernel") {
    // ncclKernel_.., ncclDevKernel_..
    return event.name.starts_with("nccl") ? WorkKind::kCommunication : WorkKind::kCompute;
  }
  if (category == "gpu_memcpy" || category == "Memcpy" || category == "gpu_memset" ||
      category == "Memset") {
    return WorkKind::kMemory;
  }
  return std::nullopt;
}

bool is_call(std::string_view category) {
  return category == "cuda_runtime" || category == "Runtime" || category == "cuda_driver";
}
// Where annotations and operators of the framework stand.
bool is_range(std::string_view category) {
  return category == "user_annotation" || category == "cpu_op" || category == "Operator" ||
         category == "python_function";
}

constexpr std::string_view kBlocking[] = {"cudaDeviceSynchronize", "cudaStreamSynchronize",
                                          "cudaEventSynchronize",  "cudaMemcpy",
                                          "cudaMemcpy2D",          "cudaMemset",
                                          "cuCtxSynchronize",      "cuStreamSynchronize",
                                          "cuEventSynchronize",    "cuMemcpyDtoH_v2",
                                          "cuMemcpyHtoD_v2"};
constexpr std::string_view kAllocators[] = {"cudaMalloc",   "cudaFree",         "cudaMallocHost",
                                            "cudaFreeHost", "cudaHostAlloc",    "cuMem",
                                            "cuModuleLoad", "cuLibraryLoadData"};

HostCallKind kind_of_call(std::string_view name) {
  if (std::find(std::begin(kBlocking), std::end(kBlocking), name) != std::end(kBlocking)) {
    return HostCallKind::kBlocking;
  }
  // cuMemcpy and cuMemset are none.
  const bool allocates =
      std::any_of(std::begin(kAllocators), std::end(kAllocators),
                  [&](std::string_view allocator) { return name.starts_with(allocator); });
  return allocates && !name.starts_with("cuMemcpy") && !name.starts_with("cuMemset")
             ? HostCallKind::kAllocator
             : HostCallKind::kOther;
}

std::optional<HostCallKind> kind_of_range(std::string_view name) {
  if (name.starts_with("enumerate(DataLoader)") ||
      name.find("DataLoaderIter.__next__") != name.npos) {
    return HostCallKind::kLoader;
  }
  if (name.starts_with("gloo:")) {
    return HostCallKind::kPeerWait;
  }
  return std::nullopt;
}

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
  void find_blocking_copies();

  KinetoTrace& trace_;
  json::parser parser_;
  Ids names_, threads_;
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
  if (!start || !duration || *duration < 0) {
    ++without_time_;
    return std::nullopt;
  }
  return Span{*start, *start + *duration};
}

void Import::add(const Event& event) {
  if (const std::optional<WorkKind> work = kind_of(event)) {
    add_work(event, *work);
  } else if (is_call(event.category)) {
    add_call(event, kind_of_call(event.name));
  } else if (is_range(event.category)) {
    if (const std::optional<HostCallKind> kind = kind_of_range(event.name)) {
      add_call(event, *kind);
    }
  }
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
                                  static_cast<int32_t>(stream), static_cast<int32_t>(device),
                                  kind});
}

void Import::add_call(const Event& event, HostCallKind kind) {
  const std::optional<Span> span = span_of(event);
  if (!span) {
    return;
  }
  const std::string thread = std::string(event.pid) + ' ' + std::string(event.tid);
  const bool launches = is_call(event.category);
  trace_.timeline.calls.push_back({span->begin_ns, span->end_ns,
                                   launches ? event.correlation.value_or(0) : 0,
                                   id_of(event.name, names_, trace_.timeline.names),
                                   id_of(thread, threads_, trace_.timeline.threads), kind});
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

std::optional<int> small_number(simdjson::simdjson_result<json::value> value) {
  int64_t number = 0;
  return value.get_int64().get(number) == simdjson::SUCCESS && number >= 0 &&
                 number <= std::numeric_limits<int>::max()
             ? std::optional(static_cast<int>(number))
             : std::nullopt;
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
        trace_.timeline.base_ns = number_of<int64_t>(token_of(field.value())).value_or(0);
      } else if (key == "distributedInfo") {
        json::value info = field.value();
        trace_.timeline.rank = small_number(info["rank"]);
        trace_.timeline.world_size = small_number(info["world_size"]);
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
  find_blocking_copies();
  if (without_time_ != 0) {
    complain(0, std::to_string(without_time_) + " events have no usable time");
  }
}

}  // namespace

bool looks_like_kineto(const std::string& path) {
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
