// Reads the events of one profile into timelines: one, or one of each rank in it (merged_parts.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <simdjson.h>

#include "analyzer/importers/kineto/enclosing.h"
#include "analyzer/importers/kineto/event_array.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/importers/kineto/kineto_event.h"
#include "analyzer/importers/kineto/kineto_operators.h"
#include "analyzer/importers/kineto/kineto_rest.h"
#include "analyzer/importers/kineto/kineto_waits.h"
#include "analyzer/timeline/communication_kernels.h"
#include "analyzer/timeline/spans.h"

namespace traintrace::kineto {

class Import {
 public:
  explicit Import(KinetoTrace& trace);
  ~Import();
  Import(const Import&) = delete;
  Import& operator=(const Import&) = delete;

  void add_piece(std::string_view piece, uint64_t offset) {
    taken_ = 0;
    if (parse(piece)) {  // something in it is no JSON: each event alone
      add_one_by_one(piece, offset);
    }
  }

  // As large_tables.h says it.
  void make_room(double part);
  void add_rest(const std::string& rest) {
    if (std::string wrong = read_rest(rest, trace_.timeline); !wrong.empty()) {
      complain(0, std::move(wrong));
    }
  }
  void finish();
  // Once finished, of the ranks in the file, if there are several.
  std::vector<KinetoTrace> take_parts();
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
  void add_events(simdjson::ondemand::array events) {
    for (auto element : events) {
      Event event = read_event(element.get_object());
      ++trace_.events;
      ++taken_;
      if (event.phase == "X") {
        part_of(event).add(event);
      }
    }
  }
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  using Ids = std::unordered_map<std::string, uint32_t, NameHash, std::equal_to<>>;

  Import& part_of(Event& event);
  void finish_own();
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
  simdjson::ondemand::parser parser_;
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
  struct Part;                                                       // a trace and its import
  std::map<std::string, std::unique_ptr<Part>, std::less<>> parts_;  // of a merged trace
};

}  // namespace traintrace::kineto
