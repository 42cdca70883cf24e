#include "analyzer/importers/kineto/kineto.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "analyzer/importers/kineto/kineto_import.h"
#include "analyzer/importers/kineto/large_tables.h"
#include "analyzer/importers/kineto/merged_parts.h"
#include "analyzer/timeline/collectives/noted_messages.h"

namespace traintrace {
namespace kineto {

namespace json = simdjson::ondemand;
static_assert(EventArray::kPadding >= simdjson::SIMDJSON_PADDING);

struct Import::Part {
  KinetoTrace trace;
  Import import{trace};
};

Import::Import(KinetoTrace& trace) : trace_(trace) {}
Import::~Import() = default;

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

Import& Import::part_of(Event& event) {
  constexpr size_t kMostParts = 1 << 12;
  const std::optional<MergedPid> merged = merged_pid(event.pid);
  if (!merged) {
    return *this;
  }
  event.pid = merged->pid;
  auto part = parts_.find(merged->part);
  if (part == parts_.end()) {
    if (parts_.size() == kMostParts) {
      return *this;
    }
    part = parts_.emplace(merged->part, std::make_unique<Part>()).first;
    part->second->trace.timeline.source =
        fmt::format("{} [{}]", trace_.timeline.source, merged->part);
  }
  ++part->second->trace.events;
  return part->second->import;
}

// Each part goes on to be the part of the file that it has been so far.
void Import::make_room(double part) {
  for (auto& [name, of_part] : parts_) {
    of_part->import.make_room(part);
  }
  kineto::make_room(trace_.timeline.work, part);
  kineto::make_room(trace_.timeline.calls, part);
  frames_.make_room(part);
  operators_.make_room(part);
}

std::vector<KinetoTrace> Import::take_parts() {
  std::vector<std::string> names;
  std::vector<KinetoTrace> traces;
  for (auto& [name, part] : parts_) {
    names.push_back(name);
    traces.push_back(std::move(part->trace));
  }
  const std::vector<int> ranks = ranks_of_parts(names);
  for (size_t i = 0; i < traces.size(); ++i) {
    Timeline& timeline = traces[i].timeline;
    timeline.rank = ranks[i];
    timeline.rank_from = RankSource::kFileName;
    timeline.world_size = static_cast<int>(traces.size());
    add_noted_messages(timeline);
  }
  return traces;
}

void Import::finish() {
  for (auto& [name, part] : parts_) {
    Timeline& timeline = part->trace.timeline;
    timeline.base_ns = trace_.timeline.base_ns;
    timeline.models = trace_.timeline.models;
    timeline.host = trace_.timeline.host;
    part->import.finish_own();
  }
  finish_own();
}

}  // namespace kineto

namespace {

using kineto::Import;

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
  return std::move(read_kineto_ranks(path).front());
}

std::vector<KinetoTrace> read_kineto_ranks(const std::string& path) {
  std::vector<KinetoTrace> ranks(1);
  KinetoTrace& trace = ranks.front();
  trace.timeline.source = path;
  trace.timeline.host = host_of_name(path);
  Result<TextFile> file = TextFile::open(path);
  if (!file) {
    trace.errors.push_back(file.error());
    return ranks;
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
  std::vector<KinetoTrace> parts = import.take_parts();
  if (parts.empty()) {
    return ranks;
  }
  std::move(trace.errors.begin(), trace.errors.end(), std::back_inserter(parts.front().errors));
  return parts;
}

}  // namespace traintrace
