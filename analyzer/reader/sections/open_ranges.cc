#include "analyzer/reader/sections/open_ranges.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "analyzer/reader/sections/elements.h"

namespace traintrace {
namespace {

std::string text_until_nul(const char* chars, size_t size) {
  return std::string(chars, std::find(chars, chars + size, '\0'));
}

const char* sort_of(uint32_t domain) {
  return domain >= format::kNoteDomain ? "note" : domain >= format::kStepDomain ? "step" : "";
}

void fill(const ReadContext& context, const format::OpenRanges& from, ThreadText& thread) {
  const uint64_t depth = std::min<uint64_t>(from.state & 0xffff, format::kMostOpenRanges);
  thread.ranges.reserve(depth);
  for (uint64_t i = 0; i < depth; ++i) {
    const format::OpenRange& range = from.ranges[i];
    if (range.began_ticks != 0) {
      thread.ranges.push_back(
          {context.clock.ns(range.began_ticks), range.range,
           range.range == 0 ? text_until_nul(range.name, sizeof range.name) : std::string(),
           sort_of(range.domain)});
    }
  }
  thread.deeper_ranges = from.deeper;
}

}  // namespace

void read_open_ranges(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kOpenRanges);
  if (section == nullptr) {
    return;
  }
  std::unordered_map<uint32_t, ThreadText*> threads;
  for (ThreadText& thread : context.trace.threads) {
    threads.emplace(thread.serial, &thread);
  }
  read_elements<format::OpenRanges>(
      context.file, *section, [](const format::OpenRanges& ranges) { return ranges.state != 0; },
      [](const format::OpenRanges& a, const format::OpenRanges& b) {
        return a.state == b.state && a.thread == b.thread;
      },
      [&](uint64_t, const format::OpenRanges& ranges) {
        const auto thread = threads.find(ranges.thread);
        if (thread != threads.end() && thread->second->ranges.empty()) {
          fill(context, ranges, *thread->second);
        }
      });
}

}  // namespace traintrace
