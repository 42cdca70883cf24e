#include "analyzer/reader/sections/events.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "analyzer/reader/sections/event_chunks.h"
#include "analyzer/reader/sections/segments.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

using format::RecordHead;

// Where the words of a call's records go among its values.
struct ValuePlaces {
  std::vector<uint8_t> in, out;
  std::vector<uint8_t> communicators;  // renumbered, as the file's table may have holes
  bool is_report = false;
  bool is_wanted = true;
};

// By ordinal, each once: one that is in both says the same.
std::vector<ChunkPlace> with_segments(std::vector<ChunkPlace> ring,
                                      std::vector<ChunkPlace> segments) {
  segments.insert(segments.end(), ring.begin(), ring.end());
  std::stable_sort(segments.begin(), segments.end(),
                   [](const ChunkPlace& a, const ChunkPlace& b) { return a.ordinal < b.ordinal; });
  const auto end =
      std::unique(segments.begin(), segments.end(),
                  [](const ChunkPlace& a, const ChunkPlace& b) { return a.ordinal == b.ordinal; });
  segments.erase(end, segments.end());
  return segments;
}

struct ThreadState {
  std::vector<uint32_t> open;  // indices in events: entered and not left yet; innermost last
  uint64_t next_event = 0;     // number of the record that should come next
  TimeNs first = 0, last = 0;
  int tid = 0;
};

class EventReader {
 public:
  EventReader(ReadContext& context, const ReadOptions& options)
      : context_(context),
        trace_(context.trace),
        reports_(options.reports),
        only_kinds_(options.only_kinds) {}

  void read_all(const format::Section& section) {
    std::vector<ChunkPlace> chunks = find_chunks(context_.file, section);
    // After the ring: what leaves it meanwhile has come there.
    auto segments = SegmentReader::beside(context_.file, context_.layout.header);
    if (segments) {
      chunks = with_segments(std::move(chunks), segments->find_chunks(trace_.errors));
    }
    if (only_kinds_.empty()) {
      reserve(chunks);
    }
    std::vector<uint64_t> buffer;
    for (const ChunkPlace& place : chunks) {
      const auto chunk = place.in_segment ? segments->read_chunk(place, buffer)
                                          : read_chunk(context_.file, place, buffer);
      if (!chunk) {
        continue;  // overwritten meanwhile: the next chunk of its thread shows the gap
      }
      read_records(place, *chunk);
    }
    if (!left_.empty()) {
      trace_.stored_reports = std::make_shared<const StoredReports>(
          std::move(*segments), context_.clock, std::move(forms_), std::move(left_), left_count_);
    }
    complete_threads();
    sort_events();
  }

  uint64_t lost() const { return lost_; }

 private:
  void reserve(const std::vector<ChunkPlace>& chunks) {
    uint64_t bytes = 0;
    for (const ChunkPlace& chunk : chunks) {
      bytes += chunk.committed;
    }
    constexpr uint64_t kSmallestCall = 40;  // an enter and a leave record without fields
    trace_.events.reserve(bytes / kSmallestCall + 1);
    trace_.values.reserve(bytes / 16);
  }

  void read_records(const ChunkPlace& place, const Chunk& chunk) {
    ThreadState& thread = threads_[chunk.head.thread];
    thread.tid = chunk.head.tid;
    begin_chunk(thread, chunk.head.first_event);
    if (chunk.cut) {
      complain(place.offset, "records that fit their chunk and the file, found " +
                                 std::to_string(chunk.head.committed) + " bytes");
    }
    const std::span<const uint64_t> words = chunk.words;
    for (size_t at = 0; at < words.size();) {
      const auto head = record_at(words, at);
      if (!head) {
        complain(place.offset + sizeof(format::EventChunk) + at * 8,
                 "a record of 2 to " + std::to_string(words.size() - at) + " words, found " +
                     std::to_string(int{head_of(words[at]).words}));
        lose_open_calls(thread);
        break;
      }
      if (!is_wanted(*head)) {
        note_time(thread, words[at + 1]);
      } else if (stays(place, *head)) {
        leave_report(thread, place, *head, words[at + 1]);
      } else {
        read_record(thread, chunk.head.thread, *head, words.subspan(at, head->words));
      }
      at += head->words;
      ++thread.next_event;
      ++trace_.records;
    }
  }

  static RecordHead head_of(uint64_t word) {
    RecordHead head;
    std::memcpy(&head, &word, sizeof head);
    return head;
  }

  bool is_wanted(RecordHead head) {
    return only_kinds_.empty() ||
           (head.type != format::kNote && places(context_.schema.call(head.call)).is_wanted);
  }

  bool stays(const ChunkPlace& place, RecordHead head) {
    return !reports_ && place.in_segment && head.type == format::kMoment &&
           places(context_.schema.call(head.call)).is_report;
  }

  void leave_report(ThreadState& thread, const ChunkPlace& place, RecordHead head, uint64_t ticks) {
    const TimeNs time = note_time(thread, ticks);
    ++left_count_;
    if (left_.empty() || left_.back().chunk.ordinal != place.ordinal) {
      left_.push_back({place, time});
    }
    if (std::none_of(forms_.begin(), forms_.end(),
                     [&](const auto& form) { return form.id == head.call; })) {
      const uint32_t call = context_.schema.call(head.call);
      const size_t fields = context_.schema.calls[call].fields.size();
      forms_.push_back({head.call, call, static_cast<uint8_t>(fields), places(call).in});
    }
  }

  TimeNs note_time(ThreadState& thread, uint64_t ticks) {
    const TimeNs time = context_.clock.ns(ticks);
    thread.first = thread.first == 0 ? time : thread.first;
    thread.last = time;
    return time;
  }

  void begin_chunk(ThreadState& thread, uint64_t first_event) {
    if (first_event > thread.next_event) {
      lost_ += first_event - thread.next_event;
      lose_open_calls(thread);
    }
    thread.next_event = first_event;
  }

  // Their returns may have been overwritten.
  void lose_open_calls(ThreadState& thread) {
    for (const uint32_t index : thread.open) {
      trace_.events[index].leave_lost = true;
    }
    thread.open.clear();
  }

  void read_record(ThreadState& thread, uint32_t serial, RecordHead head,
                   std::span<const uint64_t> words) {
    const TimeNs time = note_time(thread, words[1]);
    if (head.type == format::kMoment) {
      CallRecord& event = add_event(serial, head, time);
      event.stack = head.stack;
      event.device = head.device;
      event.leave = time;
      event.returned = event.moment = true;
      fill(event, false, words.subspan(2));
    } else if (head.type == format::kEnter) {
      thread.open.push_back(static_cast<uint32_t>(trace_.events.size()));
      CallRecord& event = add_event(serial, head, time);
      event.stack = head.stack;
      event.device = head.device;
      event.caller = words[2];
      fill(event, false, words.subspan(3));
    } else if (head.type == format::kLeave) {
      CallRecord& event = trace_.events[event_left(thread, serial, head, time)];
      event.leave = time;
      event.returned = true;
      event.result = static_cast<int32_t>(head.stack);
      fill(event, true, words.subspan(2));
    }
  }

  CallRecord& add_event(uint32_t serial, RecordHead head, TimeNs time) {
    const uint32_t call = context_.schema.call(head.call);
    CallRecord& event = trace_.events.emplace_back();
    event.thread = serial;
    event.call = call;
    event.enter = time;
    event.first_value = static_cast<uint32_t>(trace_.values.size());
    event.value_count = static_cast<uint8_t>(context_.schema.calls[call].fields.size());
    trace_.values.resize(trace_.values.size() + event.value_count);
    return event;
  }

  // The innermost open entry of that call: those inside it were left by longjmp or an exception.
  size_t event_left(ThreadState& thread, uint32_t serial, RecordHead head, TimeNs time) {
    const uint32_t call = context_.schema.call(head.call);
    for (size_t i = thread.open.size(); i-- > 0;) {
      const uint32_t index = thread.open[i];
      if (trace_.events[index].call == call) {
        thread.open.resize(i);
        return index;
      }
    }
    add_event(serial, head, time).enter_lost = true;
    return trace_.events.size() - 1;
  }

  void fill(const CallRecord& event, bool after_call, std::span<const uint64_t> words) {
    const ValuePlaces& all = places(event.call);
    const std::vector<uint8_t>& to = after_call ? all.out : all.in;
    const size_t count = std::min(to.size(), words.size());
    uint64_t* const values = trace_.values.data() + event.first_value;
    for (size_t i = 0; i < count; ++i) {
      values[to[i]] = words[i];
    }
    const std::vector<FieldSchema>& fields = context_.schema.calls[event.call].fields;
    for (const uint8_t place : all.communicators) {
      if (fields[place].after_call == after_call) {
        values[place] = mapped(context_.communicators_by_number, values[place]);
      }
    }
  }

  const ValuePlaces& places(uint32_t call) {
    while (places_.size() <= call) {
      ValuePlaces& next = places_.emplace_back();
      const CallSchema& schema = context_.schema.calls[places_.size() - 1];
      next.is_report = schema.kind == "tensor-block";
      next.is_wanted = only_kinds_.empty() || std::find(only_kinds_.begin(), only_kinds_.end(),
                                                        schema.kind) != only_kinds_.end();
      const std::vector<FieldSchema>& fields = schema.fields;
      for (size_t i = 0; i < fields.size(); ++i) {
        (fields[i].after_call ? next.out : next.in).push_back(static_cast<uint8_t>(i));
        if (fields[i].format == "communicator") {
          next.communicators.push_back(static_cast<uint8_t>(i));
        }
      }
    }
    return places_[call];
  }

  // Threads whose place in the table was given to another, and those whose records are all gone.
  void complete_threads() {
    for (const ThreadText& thread : trace_.threads) {
      lost_ += threads_.contains(thread.serial) ? 0 : thread.events;
    }
    for (const auto& [serial, state] : threads_) {
      const bool known = std::any_of(
          trace_.threads.begin(), trace_.threads.end(),
          [serial = serial](const ThreadText& thread) { return thread.serial == serial; });
      if (!known) {
        ThreadText& thread = trace_.threads.emplace_back();
        thread.serial = serial;
        thread.tid = state.tid;
        thread.started = state.first;
        thread.ended = state.last;
        thread.events = state.next_event;
      }
    }
    std::stable_sort(trace_.threads.begin(), trace_.threads.end(),
                     [](const ThreadText& a, const ThreadText& b) { return a.serial < b.serial; });
  }

  void sort_events() {
    std::vector<CallRecord>& events = trace_.events;
    const auto by_enter = [](const CallRecord& a, const CallRecord& b) {
      return a.enter < b.enter;
    };
    if (!std::is_sorted(events.begin(), events.end(), by_enter)) {
      std::stable_sort(events.begin(), events.end(), by_enter);
    }
  }

  void complain(uint64_t offset, std::string expectation) {
    constexpr size_t kMostComplaints = 20;
    if (++complaints_ <= kMostComplaints) {
      trace_.errors.push_back(context_.file.error(offset, "expected " + std::move(expectation)));
    }
  }

  ReadContext& context_;
  ProcessTrace& trace_;
  std::unordered_map<uint32_t, ThreadState> threads_;
  const bool reports_;  // to be kept wherever they are
  const std::span<const std::string_view> only_kinds_;
  std::vector<StoredReports::Place> left_;
  std::vector<StoredReports::Form> forms_;  // of those
  uint64_t left_count_ = 0;
  std::vector<ValuePlaces> places_;
  uint64_t lost_ = 0;
  size_t complaints_ = 0;
};

constexpr std::string_view kRingOverwritten = "ring-overwritten";

// The tracer counts them too, but a chunk that is overwritten while it is read shows only here.
void note_lost(ProcessTrace& trace, uint64_t lost) {
  for (LossText& loss : trace.losses) {
    if (loss.stat == kRingOverwritten) {
      loss.count = std::max(loss.count, lost);
      return;
    }
  }
  if (lost != 0) {
    trace.losses.push_back({std::string(kRingOverwritten), lost, "info"});
  }
}

uint64_t records_by_tables(const ProcessTrace& trace) {
  uint64_t records = 0;
  for (const ThreadText& thread : trace.threads) {
    records += thread.events;
  }
  for (const LossText& loss : trace.losses) {
    if (loss.stat == kRingOverwritten) {
      records -= std::min(records, loss.count);
    }
  }
  return records;
}

}  // namespace

void read_events(ReadContext& context, const ReadOptions& options) {
  const format::Section* section = context.layout.section(format::kEvents);
  if (section == nullptr) {
    return;
  }
  if (!options.events) {
    context.trace.records = records_by_tables(context.trace);
    return;
  }
  EventReader reader(context, options);
  reader.read_all(*section);
  note_lost(context.trace, reader.lost());
}

}  // namespace traintrace
