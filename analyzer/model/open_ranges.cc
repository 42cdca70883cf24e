#include "analyzer/model/open_ranges.h"

#include <fmt/format.h>

#include <algorithm>

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

// The outermost and the innermost ones.
std::string path_text(const ProcessTrace& trace, const ThreadText& thread) {
  const size_t count = thread.ranges.size();
  const size_t left_out = count > kMostNames ? count - kMostNames : 0;
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (left_out != 0 && i == kMostNames / 2) {
      text += fmt::format(" > ({} more)", left_out);
      i += left_out;
    }
    text += (i == 0 ? "" : " > ") + shortened(range_name_text(trace, thread.ranges[i]));
  }
  return thread.deeper_ranges == 0 ? text
                                   : text + fmt::format(" > ({} more)", thread.deeper_ranges);
}

TimeNs last_heard_of(const ThreadText& thread) {
  return std::max({thread.last_call_time, thread.last_query_time, thread.open[0].enter,
                   thread.open[1].enter, thread.ranges.back().began});
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

std::string open_ranges_text(const Run& run, const RankState& state) {
  const ProcessTrace& trace = trace_of(run, state);
  const ThreadText* main = nullptr;
  const ThreadText* latest = nullptr;
  for (const ThreadText& thread : trace.threads) {
    if (thread.ranges.empty() || thread.ended != 0 || !works_for(state, thread)) {
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

}  // namespace traintrace
