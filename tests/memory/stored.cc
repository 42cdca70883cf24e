// Reads traces with all reports in memory and with those of full recording left in their file: both
// must be the same, one after the other.  Prints how many were left.
#include <cstdio>
#include <tuple>
#include <vector>

#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace {

using namespace traintrace;

struct Event {
  TimeNs enter, leave;
  uint32_t thread, call, stack;
  int32_t result;
  uint8_t device;
  bool moment;
  std::vector<uint64_t> values;
  auto operator<=>(const Event&) const = default;
};

std::vector<Event> events_of(const ProcessTrace& trace) {
  std::vector<Event> events;
  each_event(trace, [&](const CallRecord& record, std::span<const uint64_t> values) {
    events.push_back({record.enter,
                      record.leave,
                      record.thread,
                      record.call,
                      record.stack,
                      record.result,
                      record.device,
                      record.moment,
                      {values.begin(), values.end()}});
  });
  return events;
}

bool same(const ProcessTrace& all, const ProcessTrace& left) {
  const std::vector<Event> a = events_of(all);
  const std::vector<Event> b = events_of(left);
  bool ordered = true;
  for (size_t i = 1; i < b.size(); ++i) {
    ordered = ordered && b[i - 1].enter <= b[i].enter;
  }
  return a == b && ordered && all.records == left.records && event_count(left) == b.size() &&
         first_event(left) == b.front().enter;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> inputs(argv + 1, argv + argc);
  const TraceSet all = read_traces(inputs, {.events = true});
  const TraceSet left = read_traces(inputs, {.events = true, .reports = false});
  for (size_t i = 0; i < all.processes.size(); ++i) {
    const auto& stored = left.processes.at(i).stored_reports;
    printf("%zu\n", stored ? stored->count() : 0);
    if (all.processes[i].stored_reports || !same(all.processes[i], left.processes[i])) {
      printf("differ: %s\n", all.processes[i].source.c_str());
      return 1;
    }
  }
  return all.processes.empty() ? 1 : 0;
}
