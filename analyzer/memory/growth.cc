#include "analyzer/memory/growth.h"

#include <algorithm>

#include "analyzer/model/elapsed.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

uint64_t born_within(const BlockGroup& group, TimeNs after, TimeNs until) {
  uint64_t bytes = 0;
  for (const auto& [time, size] : group.blocks) {
    bytes = sum_of(bytes, time > after && time <= until ? size : 0);
  }
  return bytes;
}

// From the step in which the first copy was born to the last: what came before grew by nothing.
uint64_t bytes_per_step(const Steps& steps, const BlockGroup& group, int64_t since) {
  const auto end = static_cast<int64_t>(steps.starts.size());
  const int64_t begin = std::clamp<int64_t>(since, 1, end - 1) - 1;
  const uint64_t recorded =
      born_within(group, steps.starts[static_cast<size_t>(begin)], steps.last());
  return recorded != 0 ? recorded / static_cast<uint64_t>(end - 1 - begin)
                       : group.bytes / static_cast<uint64_t>(std::max<int64_t>(end - since, 1));
}

// Then those that are left are all that there ever were, and may begin late.
bool nothing_freed(const MemoryHistory& history, uint32_t stack) {
  const auto site = history.sites.find(stack);
  return history.whole && site != history.sites.end() && site->second.freed == 0;
}

// Of those that were born in the steps; in order.
std::vector<int64_t> steps_after(const Steps& steps, std::vector<TimeNs> births, int64_t start) {
  std::sort(births.begin(), births.end());
  std::vector<int64_t> numbers;
  for (const TimeNs birth : births) {
    if (const int64_t step = steps.number_at(birth); step > start) {
      numbers.push_back(step);
    }
  }
  return numbers;
}

// What was given back behind the last step had gathered just so: the job has hold of such blocks.
bool is_let_go(const MemoryHistory& history, uint32_t stack, int64_t start, int64_t end) {
  const auto site = history.sites.find(stack);
  return site != history.sites.end() &&
         grows_throughout(steps_after(history.steps, site->second.freed_behind, start), start, end);
}

}  // namespace

bool grows_throughout(std::span<const int64_t> births, int64_t start, int64_t end) {
  const int64_t length = elapsed(start, end);
  if (births.size() < kFewestCopies || length < kFewestGrowthSteps ||
      elapsed(start, births.front()) > length / kGrowthBegins) {
    return false;
  }
  const int64_t width = elapsed(births.front(), end) / kGrowthWindows + 1;
  size_t counts[kGrowthWindows] = {};
  for (const int64_t birth : births) {
    const int64_t window = std::max<int64_t>(elapsed(births.front(), birth), 0) / width;
    ++counts[std::min<int64_t>(window, kGrowthWindows - 1)];
  }
  size_t early = 0;
  size_t late = 0;
  for (int i = 0; i < kGrowthWindows; ++i) {
    (i < kGrowthWindows / 2 ? early : late) += counts[i];
  }
  return std::all_of(counts, counts + kGrowthWindows, [](size_t count) { return count > 0; }) &&
         100 * late >= kGrowthGoesOn * early;
}

int64_t first_step(const ProcessTrace& trace, const MemoryHistory& history) {
  TimeNs start = trace.armed;
  for (const CommunicatorText& communicator : trace.communicators) {
    start = communicator.size > 1 ? std::max(start, communicator.ready) : start;
  }
  return history.whole ? 0 : std::min<int64_t>(history.steps.number_at(start), 0);
}

std::optional<Growth> growth_of(const ProcessTrace& trace, const MemoryHistory& history,
                                const BlockGroup& group) {
  const Steps& steps = history.steps;
  // What was repeated before work of another kind, and longer of it, was no step.
  const bool is_preparation =
      elapsed(steps.last(), steps.work_end) > elapsed(steps.first(), steps.last());
  if (steps.count() < uint64_t{kFewestGrowthSteps} || is_preparation || group.bytes == 0) {
    return std::nullopt;
  }
  int64_t start = first_step(trace, history);
  const auto end = static_cast<int64_t>(steps.starts.size());
  if (is_let_go(history, group.stack, start, end)) {
    return std::nullopt;
  }
  std::vector<int64_t> births;
  TimeNs since = 0;
  for (const auto& [time, bytes] : group.blocks) {
    // What was allocated before the first step is not of the steps.
    if (const int64_t step = steps.number_at(time); step > start) {
      since = births.empty() ? time : since;
      births.push_back(step);
    }
  }
  if (nothing_freed(history, group.stack) && !births.empty() &&
      elapsed(births.front(), end) >= elapsed(start, end) / kGrowthBegins) {
    start = births.front();
  }
  if (!grows_throughout(births, start, end)) {
    return std::nullopt;
  }
  Growth growth;
  growth.since = since;
  growth.step_count = static_cast<uint64_t>(elapsed(births.front(), end));
  growth.since_step = history.whole ? births.front() : 0;
  growth.bytes_per_step = bytes_per_step(steps, group, births.front());
  return growth;
}

}  // namespace traintrace
