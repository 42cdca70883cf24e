#include "analyzer/model/process/range_spans.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

// Of a damaged trace, in which no end is left.
constexpr size_t kMostOpen = 1024;

class RangeSpanReader {
 public:
  explicit RangeSpanReader(const ProcessTrace& trace) : trace_(trace) {}

  std::vector<RangeSpan> take() {
    for (const CallRecord& event : trace_.events) {
      const CallSchema* const schema = event.moment ? schema_of(trace_, event.call) : nullptr;
      if (schema != nullptr) {
        add(event, schema->kind);
      }
    }
    for (const auto& [thread, open] : pushed_) {
      spans_.insert(spans_.end(), open.begin(), open.end());
    }
    for (const auto& [handle, span] : started_) {
      spans_.push_back(span);
    }
    for (const ThreadText& thread : trace_.threads) {
      add_open(thread);
    }
    return std::move(spans_);
  }

 private:
  uint64_t value(const CallRecord& event, std::string_view field) const {
    return value_of(trace_, event, field).value_or(0);
  }
  RangeSpan begun(const CallRecord& event, bool pushed) const {
    return {event.enter, RangeSpan::kOpen, event.thread,
            static_cast<uint32_t>(value(event, "range")), pushed};
  }

  void add(const CallRecord& event, std::string_view kind) {
    if (kind == "range-push") {
      std::vector<RangeSpan>& open = pushed_[event.thread];
      if (open.size() == kMostOpen) {
        open.erase(open.begin());
      }
      open.push_back(begun(event, true));
    } else if (kind == "range-pop") {
      pop(event);
    } else if (kind == "range-start") {
      started_[value(event, "handle")] = begun(event, false);
    } else if (kind == "range-end") {
      const auto started = started_.find(value(event, "handle"));
      if (started != started_.end()) {
        started->second.ended = event.enter;
        spans_.push_back(started->second);
        started_.erase(started);
      }
    }
  }

  // The innermost one of that name.
  void pop(const CallRecord& event) {
    const uint64_t range = value(event, "range");
    std::vector<RangeSpan>& open = pushed_[event.thread];
    const auto found = std::find_if(open.rbegin(), open.rend(), [&](const RangeSpan& each) {
      return range == 0 || each.range == range;
    });
    if (found != open.rend()) {
      found->ended = event.enter;
      spans_.push_back(*found);
      open.erase(std::next(found).base());
    }
  }

  // Those whose push was overwritten.
  void add_open(const ThreadText& thread) {
    const std::vector<RangeSpan>& pushed = pushed_[thread.serial];
    for (const OpenRangeText& range : thread.ranges) {
      const bool known = std::any_of(pushed.begin(), pushed.end(), [&](const RangeSpan& each) {
        return each.began == range.began && each.range == range.range;
      });
      if (!known && range.sort.empty()) {
        spans_.push_back({range.began, RangeSpan::kOpen, thread.serial, range.range, true});
      }
    }
  }

  const ProcessTrace& trace_;
  std::vector<RangeSpan> spans_;
  std::unordered_map<uint32_t, std::vector<RangeSpan>> pushed_;  // by thread, outermost first
  std::unordered_map<uint64_t, RangeSpan> started_;              // by handle
};

}  // namespace

std::vector<RangeSpan> range_spans(const ProcessTrace& trace) {
  return RangeSpanReader(trace).take();
}

}  // namespace traintrace
