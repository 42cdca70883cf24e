#include "analyzer/model/open_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/model/activity.h"

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
std::string path_text(const ProcessTrace& trace, const ThreadText& thread) {
  std::vector<const OpenRangeText*> ranges;
  ranges.reserve(thread.ranges.size());
  for (const OpenRangeText& range : thread.ranges) {
    if (!is_note(range)) {
      ranges.push_back(&range);
    }
  }
  const size_t count = ranges.size();
  const size_t left_out = count > kMostNames ? count - kMostNames : 0;
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (left_out != 0 && i == kMostNames / 2) {
      text += fmt::format(" > ({} more)", left_out);
      i += left_out;
    }
    text += (i == 0 ? "" : " > ") + shortened(range_name_text(trace, *ranges[i]));
  }
  return thread.deeper_ranges == 0 ? text
                                   : text + fmt::format(" > ({} more)", thread.deeper_ranges);
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
