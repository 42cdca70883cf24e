#include "analyzer/model/process/open_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/range_spans.h"

namespace traintrace {
namespace {

// A person reads as many.
constexpr size_t kMostNames = 8;
constexpr size_t kLongestName = 80;

std::string shortened(const std::string& name) {
  return name.size() <= kLongestName ? name : name.substr(0, kLongestName) + "..";
}

std::string whole_name(const RangeNameText& range) {
  const std::string name = range.name.empty() ? "(unnamed)" : range.name;
  return range.domain.empty() ? name : range.domain + "/" + name;
}

bool is_note(const OpenRangeText& range) {
  return range.sort == "note";
}

bool has_ranges(const ThreadText& thread) {
  return std::any_of(thread.ranges.begin(), thread.ranges.end(),
                     [](const OpenRangeText& range) { return !is_note(range); });
}

// The outermost and the innermost ones.
std::string path_text(const std::vector<std::string>& names) {
  const size_t count = names.size();
  const size_t left_out = count > kMostNames ? count - kMostNames : 0;
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (left_out != 0 && i == kMostNames / 2) {
      text += fmt::format(" > ({} more)", left_out);
      i += left_out;
    }
    text += (i == 0 ? "" : " > ") + shortened(names[i]);
  }
  return text;
}

std::string path_text(const ProcessTrace& trace, const ThreadText& thread) {
  std::vector<std::string> names;
  names.reserve(thread.ranges.size());
  for (const OpenRangeText& range : thread.ranges) {
    if (!is_note(range)) {
      names.push_back(range_name_text(trace, range));
    }
  }
  const std::string text = path_text(names);
  return thread.deeper_ranges == 0 ? text
                                   : text + fmt::format(" > ({} more)", thread.deeper_ranges);
}

// 0: it gave none up.
TimeNs first_abort(const ProcessTrace& trace) {
  TimeNs first = 0;
  for (const CommunicatorText& communicator : trace.communicators) {
    const bool aborted = (communicator.flags & format::kAborted) != 0 && communicator.ended != 0;
    first = aborted && (first == 0 || communicator.ended < first) ? communicator.ended : first;
  }
  return first;
}

// The last one that the thread told by then; null: none.
const CallRecord* marked_step_at(const ProcessTrace& trace, uint32_t thread, TimeNs time) {
  const CallRecord* latest = nullptr;
  for (const CallRecord& event : trace.events) {
    const bool may_be = event.moment && event.thread == thread && event.enter <= time;
    const CallSchema* const schema = may_be ? schema_of(trace, event.call) : nullptr;
    if (schema != nullptr && schema->kind == "step" &&
        (latest == nullptr || event.enter >= latest->enter)) {
      latest = &event;
    }
  }
  return latest;
}

const ThreadText* main_thread(const ProcessTrace& trace) {
  const auto main = std::find_if(trace.threads.begin(), trace.threads.end(),
                                 [&](const ThreadText& thread) { return thread.tid == trace.pid; });
  return main == trace.threads.end() ? nullptr : &*main;
}

// What that thread was in, outermost first.
std::string ranges_at(const ProcessTrace& trace, const ThreadText& thread,
                      const std::vector<RangeSpan>& spans, TimeNs time) {
  std::vector<std::pair<TimeNs, std::string>> open;
  for (const RangeSpan& span : spans) {
    if (span.pushed && span.thread == thread.serial && span.began <= time && span.ended > time) {
      open.emplace_back(span.began, range_name_text(trace, span.range));
    }
  }
  if (const CallRecord* const step = marked_step_at(trace, thread.serial, time)) {
    const uint64_t number = value_of(trace, *step, "step").value_or(0);
    open.emplace_back(step->enter, fmt::format("step {}", static_cast<int64_t>(number)));
  }
  std::stable_sort(open.begin(), open.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  names.reserve(open.size());
  for (auto& [began, name] : open) {
    names.push_back(std::move(name));
  }
  return path_text(names);
}

TimeNs last_heard_of(const ThreadText& thread) {
  return std::max({thread.last_call_time, thread.last_query_time, thread.open[0].enter,
                   thread.open[1].enter, thread.ranges.back().began});
}

// Of a note whose beginning fills its place in the table, all that its records still have.
std::string whole_note(const ProcessTrace& trace, const ThreadText& thread,
                       const OpenRangeText& note) {
  constexpr size_t kMostText = 512;  // the recorder's
  if (note.name.size() < sizeof format::OpenRange::name) {
    return note.name;
  }
  std::string key;
  std::string text;
  for (const CallRecord& event : trace.events) {
    if (!event.moment || event.thread != thread.serial || event.enter != note.began) {
      continue;
    }
    const CallSchema* const schema = schema_of(trace, event.call);
    if (schema != nullptr && schema->kind == "note" && text.size() < kMostText &&
        value_of(trace, event, "offset") == text.size()) {
      key = range_name_text(trace,
                            static_cast<uint32_t>(value_of(trace, event, "range").value_or(0)));
      text += note_text(trace, event);
    }
  }
  return text.empty() ? note.name + ".." : fmt::format("{} {}", key, text);
}

}  // namespace

std::string range_name_text(const ProcessTrace& trace, uint32_t range) {
  const auto name = trace.ranges.find(range);
  return name != trace.ranges.end() ? whole_name(name->second)
         : range == 0               ? "(a range without a name)"
                                    : fmt::format("range {}", range);
}

std::string range_name_text(const ProcessTrace& trace, const OpenRangeText& range) {
  return range.range == 0 && !range.name.empty() ? range.name : range_name_text(trace, range.range);
}

std::string note_text(const ProcessTrace& trace, const CallRecord& event) {
  constexpr const char* kWords[] = {"text0", "text1", "text2", "text3",
                                    "text4", "text5", "text6", "text7"};
  std::string text;
  for (const char* const word : kWords) {
    for (uint64_t chars = value_of(trace, event, word).value_or(0); chars != 0; chars >>= 8) {
      text += static_cast<char>(chars & 0xff);
    }
  }
  return text;
}

std::string open_ranges_text(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  const ThreadText* main = nullptr;
  const ThreadText* latest = nullptr;
  for (const ThreadText& thread : trace.threads) {
    if (!has_ranges(thread) || thread.ended != 0 || !works_for(state, thread)) {
      continue;
    }
    main = thread.tid == trace.pid ? &thread : main;
    latest = latest == nullptr || last_heard_of(thread) > last_heard_of(*latest) ? &thread : latest;
  }
  if (latest == nullptr) {
    return "";
  }
  const std::string path = path_text(trace, main != nullptr ? *main : *latest);
  return main == nullptr || main == latest
             ? path
             : path + fmt::format("; in its thread {}: {}",
                                  latest->name.empty() ? std::to_string(latest->tid) : latest->name,
                                  path_text(trace, *latest));
}

std::string ranges_at_abort_text(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  const TimeNs time = first_abort(trace);
  const ThreadText* const main = main_thread(trace);
  return time == 0 || main == nullptr ? "" : ranges_at(trace, *main, range_spans(trace), time);
}

std::string last_ranges_text(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  const ThreadText* const main = main_thread(trace);
  if (main == nullptr) {
    return "";
  }
  const std::vector<RangeSpan> spans = range_spans(trace);
  const RangeSpan* last = nullptr;
  for (const RangeSpan& span : spans) {
    // Those of libraries go on while a process ends.
    const auto name = trace.ranges.find(span.range);
    const bool is_own = name == trace.ranges.end() || name->second.domain.empty();
    if (span.pushed && span.thread == main->serial && is_own &&
        (last == nullptr || span.began >= last->began)) {
      last = &span;
    }
  }
  return last == nullptr ? "" : ranges_at(trace, *main, spans, last->began);
}

std::string notes_text(const Run& run, const RankState& state) {
  constexpr size_t kMostNotes = 8;
  const ProcessTrace& trace = trace_of(run, state);
  // By key, which is all up to the first blank.
  std::map<std::string, std::pair<const ThreadText*, const OpenRangeText*>> newest;
  for (const ThreadText& thread : trace.threads) {
    if (thread.ended != 0 || !works_for(state, thread)) {
      continue;
    }
    for (const OpenRangeText& range : thread.ranges) {
      if (is_note(range)) {
        auto& known = newest[range.name.substr(0, range.name.find(' '))];
        known = known.second == nullptr || range.began > known.second->began
                    ? std::pair(&thread, &range)
                    : known;
      }
    }
  }
  std::string text;
  size_t count = 0;
  for (const auto& [key, note] : newest) {
    if (++count <= kMostNotes) {
      text += (text.empty() ? "" : "; ") + whole_note(trace, *note.first, *note.second);
    }
  }
  return text;
}

}  // namespace traintrace
