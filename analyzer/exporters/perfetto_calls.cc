#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyzer/exporters/perfetto.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/open_ranges.h"
#include "analyzer/model/process/range_spans.h"

namespace traintrace {
namespace {

class Calls {
 public:
  Calls(const ProcessTrace& trace, const Timeline* timeline, const LaunchArrows& arrows)
      : trace_(trace), arrows_(arrows) {
    for (size_t i = 0; timeline != nullptr && i < timeline->threads.size(); ++i) {
      numbers_[timeline->threads[i]] = static_cast<uint32_t>(i);
    }
  }

  void write(uint64_t process, PerfettoWriter& out) {
    for (const CallRecord& event : trace_.events) {
      if (!event.moment && !event.enter_lost) {
        by_thread_[event.thread].push_back(slice_of(event));
      }
    }
    std::vector<PerfettoSlice> started;
    for (const RangeSpan& span : range_spans(trace_)) {
      std::vector<PerfettoSlice>& slices = span.pushed ? by_thread_[span.thread] : started;
      slices.push_back({span.began,
                        span.ended == RangeSpan::kOpen ? PerfettoSlice::kOpen : span.ended,
                        range_name_text(trace_, span.range),
                        {}});
    }
    for (auto& [serial, slices] : by_thread_) {
      out.slices(thread_name(serial), process, std::move(slices));
    }
    if (!started.empty()) {
      out.slices("ranges", process, std::move(started));
    }
    add_marks(process, out);
  }

 private:
  // Marks and notes of the job.
  void add_marks(uint64_t process, PerfettoWriter& out) {
    uint64_t track = 0;
    for (const CallRecord& event : trace_.events) {
      const std::string& kind = trace_.calls[event.call].kind;
      const bool is_note = kind == "note" && value_of(trace_, event, "offset").value_or(0) == 0;
      if (event.moment && (is_note || kind == "range-mark")) {
        track = track != 0 ? track : out.track("marks", process);
        out.instant(track, event.enter, mark_text(event, is_note),
                    {{"thread", thread_name(event.thread)}});
      }
    }
  }

  std::string mark_text(const CallRecord& event, bool is_note) const {
    const auto range = static_cast<uint32_t>(value_of(trace_, event, "range").value_or(0));
    const std::string name = range_name_text(trace_, range);
    return is_note ? name + " " + note_text(trace_, event) : name;
  }

  PerfettoSlice slice_of(const CallRecord& event) {
    const bool open = !event.returned && !event.leave_lost;
    PerfettoSlice slice{event.enter,
                        open             ? PerfettoSlice::kOpen
                        : event.returned ? std::max(event.leave, event.enter)
                                         : event.enter,
                        trace_.calls[event.call].name,
                        {}};
    const auto number = numbers_.find(std::to_string(event.thread));
    if (number != numbers_.end()) {
      begin_arrows(number->second, event.enter, slice);
    }
    if (const std::string& place = place_of(event.stack); !place.empty()) {
      slice.notes.emplace_back("at", place);
    }
    if (event.returned && event.result != 0) {
      slice.notes.emplace_back("result", std::to_string(event.result));
    }
    return slice;
  }

  // The timeline may have read the clock of the machine once more: its times differ by some ns.
  void begin_arrows(uint32_t thread, TimeNs enter, PerfettoSlice& slice) {
    constexpr TimeNs kApart = 100;  // less than any call takes
    TimeNs least = 0;
    if (__builtin_sub_overflow(enter, kApart, &least)) {
      return;
    }
    for (auto from = arrows_.from.lower_bound({thread, least});
         from != arrows_.from.end() && from->first.first == thread &&
         elapsed(enter, from->first.second) <= kApart;
         ++from) {
      if (launched_.insert(from->first).second) {
        slice.begins = from->second;
        return;
      }
    }
  }

  const std::string& place_of(uint32_t stack) {
    const auto [known, is_new] = places_.try_emplace(stack);
    if (is_new && stack != 0) {
      const std::optional<CodePlace> place = user_place(trace_, {0}, stack);
      known->second = place ? place_text(*place) : "";
    }
    return known->second;
  }

  std::string thread_name(uint32_t serial) const {
    for (const ThreadText& thread : trace_.threads) {
      if (thread.serial == serial) {
        return fmt::format("thread {} {}", thread.tid, thread.name);
      }
    }
    return fmt::format("thread #{}", serial);
  }

  const ProcessTrace& trace_;
  const LaunchArrows& arrows_;
  std::map<std::string, uint32_t> numbers_;  // of threads in the timeline, by serial
  std::map<uint32_t, std::vector<PerfettoSlice>> by_thread_;
  // Calls that enter at the same ns: the outermost has the arrow.
  std::set<std::pair<uint32_t, TimeNs>> launched_;
  std::unordered_map<uint32_t, std::string> places_;  // by stack
};

}  // namespace

void add_calls(const ProcessTrace& trace, const Timeline* timeline, const LaunchArrows& arrows,
               uint64_t process, PerfettoWriter& out) {
  Calls(trace, timeline, arrows).write(process, out);
}

void add_calls(const Timeline& timeline, const LaunchArrows& arrows, uint64_t process,
               PerfettoWriter& out) {
  std::vector<std::vector<PerfettoSlice>> threads(timeline.threads.size());
  std::set<std::pair<uint32_t, TimeNs>> launched;
  for (const HostCall& call : timeline.calls) {
    const TimeNs start = timeline.base_ns + call.start_ns;
    PerfettoSlice slice{start, timeline.base_ns + call.end_ns, timeline.names[call.name], {}};
    const auto from = arrows.from.find({call.thread, start});
    if (call.correlation != 0 && from != arrows.from.end() && launched.insert(from->first).second) {
      slice.begins = from->second;
    }
    if (call.site != kNoName) {
      slice.notes.emplace_back("at", timeline.names[call.site]);
    }
    threads[call.thread].push_back(std::move(slice));
  }
  for (size_t i = 0; i < threads.size(); ++i) {
    out.slices("thread " + timeline.threads[i], process, std::move(threads[i]));
  }
}

}  // namespace traintrace
