// What timelines say of streams, of calls and of the places that make them.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/median.h"
#include "analyzer/timeline/partition.h"

namespace traintrace {
namespace {

constexpr const char* kKinds[] = {"other", "blocking", "allocator", "loader", "peer-wait"};

using ByDevice = std::map<int, std::vector<GpuWork>>;

ByDevice by_device(const Timeline& timeline) {
  ByDevice devices;
  for (const GpuWork& work : timeline.work) {
    devices[work.device].push_back(work);
  }
  return devices;
}

ReportCell text_or_nothing(const std::string& text) {
  return text.empty() ? ReportCell() : ReportCell(text);
}

// Of one stream: what was launched and had not begun.
struct Queue {
  int64_t launches = 0;
  int64_t deepest = 0;
  double waited_ns = 0;        // of all, from launch to start; by the window: the mean depth
  std::vector<int64_t> leads;  // from the return of the launch to the start
};

using Launches = std::unordered_map<uint64_t, const HostCall*>;

Launches launches_of(const Timeline& timeline) {
  Launches launches;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation != 0) {
      launches.try_emplace(call.correlation, &call);
    }
  }
  return launches;
}

// A replay of a graph is one launch, however much work it has.
Queue queue_of(const std::vector<GpuWork>& work, const Launches& launches) {
  Queue queue;
  std::vector<std::pair<int64_t, int>> changes;
  std::set<uint64_t> seen;
  for (const GpuWork& each : work) {
    const auto launch = launches.find(each.correlation);
    if (launch == launches.end() || !seen.insert(each.correlation).second) {
      continue;
    }
    const int64_t launched_ns = launch->second->start_ns;
    const int64_t begun_ns = std::max(each.start_ns, launched_ns);
    ++queue.launches;
    queue.waited_ns += static_cast<double>(begun_ns - launched_ns);
    queue.leads.push_back(each.start_ns - launch->second->end_ns);
    changes.emplace_back(launched_ns, 1);
    changes.emplace_back(begun_ns, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t depth = 0;
  for (const auto& [time, change] : changes) {
    depth += change;
    queue.deepest = std::max(queue.deepest, depth);
  }
  return queue;
}

void add_queue(Queue queue, int64_t window_ns, std::vector<ReportCell>& row) {
  row.emplace_back(queue.launches);
  row.resize(row.size() + 3);
  if (queue.launches != 0 && window_ns > 0) {
    constexpr double kE4 = 10'000;
    constexpr double kMost = 1e12;  // of files that may say anything
    const double mean = queue.waited_ns / static_cast<double>(window_ns);
    row[row.size() - 3] = upper_median(std::move(queue.leads));
    row[row.size() - 2] = ReportDecimal{std::llround(std::min(mean * kE4, kMost))};
    row[row.size() - 1] = queue.deepest;
  }
}

void add_streams(const Timeline& timeline, ReportTable& table) {
  const Launches launches = launches_of(timeline);
  for (const auto& [device, all] : by_device(timeline)) {
    const int64_t window = partition_of(all).window_ns;
    std::map<int32_t, std::vector<GpuWork>> streams;
    for (const GpuWork& work : all) {
      streams[work.stream].push_back(work);
    }
    for (const auto& [stream, work] : streams) {
      const TimePartition times = partition_of(work);
      std::vector<ReportCell>& row = table.rows.emplace_back(1);
      if (timeline.rank) {
        row[0] = int64_t{*timeline.rank};
      }
      for (const int64_t value :
           {int64_t{device}, int64_t{stream}, static_cast<int64_t>(work.size()), window,
            times.busy_ns, window - times.busy_ns, times.compute_ns, times.communication_ns,
            times.memory_ns}) {
        row.emplace_back(value);
      }
      add_queue(queue_of(work, launches), window, row);
      row.emplace_back(timeline.source);
    }
  }
}

// Idle time of all GPUs that calls have to answer for.
void visit_all_idle(std::span<const Timeline> timelines,
                    const std::function<void(const Timeline&, const IdleCharge&)>& visit) {
  for (const Timeline& timeline : timelines) {
    for (const auto& [device, work] : by_device(timeline)) {
      visit_idle(timeline, work, [&](const IdleCharge& charge) { visit(timeline, charge); });
    }
  }
}

struct CallSums {
  HostCallKind kind = HostCallKind::kOther;
  int64_t count = 0, host_ns = 0, max_ns = 0, work = 0;
};

std::map<std::string, CallSums> sums_of_calls(std::span<const Timeline> timelines) {
  std::map<std::string, CallSums> sums;
  for (const Timeline& timeline : timelines) {
    std::unordered_map<uint64_t, int64_t> launched;
    for (const GpuWork& work : timeline.work) {
      ++launched[work.correlation];
    }
    for (const HostCall& call : timeline.calls) {
      CallSums& sum = sums[timeline.names[call.name]];
      const int64_t ns = call.end_ns - call.start_ns;
      sum.kind = std::max(sum.kind, call.kind);
      ++sum.count;
      sum.host_ns += ns;
      sum.max_ns = std::max(sum.max_ns, ns);
      const auto work = launched.find(call.correlation);
      sum.work += call.correlation == 0 || work == launched.end() ? 0 : work->second;
    }
  }
  return sums;
}

}  // namespace

ReportTable report_by_stream(std::span<const Timeline> timelines) {
  ReportTable table{"stream",
                    {"rank", "device", "stream", "work_count", "window_ns", "busy_ns", "idle_ns",
                     "compute_ns", "communication_ns", "memory_ns", "launch_count", "lead_ns",
                     "queue_mean", "queue_max", "source"},
                    {}};
  for (const Timeline* timeline : in_order_of_rank(timelines)) {
    add_streams(*timeline, table);
  }
  return table;
}

std::map<uint32_t, IdleTimes> idle_by_stack(const Timeline& timeline) {
  std::map<uint32_t, IdleTimes> idle;
  visit_all_idle({&timeline, 1}, [&](const Timeline&, const IdleCharge& charge) {
    if (charge.call != nullptr && !timeline.call_stacks.empty()) {
      const auto index = static_cast<size_t>(charge.call - timeline.calls.data());
      idle[timeline.call_stacks[index]][static_cast<size_t>(charge.cause)] += charge.ns;
    }
  });
  return idle;
}

std::map<std::string, int64_t> idle_by_call(std::span<const Timeline> timelines) {
  std::map<std::string, int64_t> idle;
  visit_all_idle(timelines, [&](const Timeline& timeline, const IdleCharge& charge) {
    if (charge.call != nullptr) {
      idle[timeline.names[charge.call->name]] += charge.ns;
    }
  });
  return idle;
}

ReportTable report_by_call(std::span<const Timeline> timelines) {
  const std::map<std::string, int64_t> idle = idle_by_call(timelines);
  ReportTable table{
      "call",
      {"call", "kind", "count", "host_ns", "mean_ns", "max_ns", "work_count", "idle_ns"},
      {}};
  const std::map<std::string, CallSums> sums = sums_of_calls(timelines);
  std::vector<std::pair<std::string, CallSums>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.host_ns > b.second.host_ns;
  });
  for (const auto& [name, sum] : rows) {
    const auto lost = idle.find(name);
    table.rows.push_back({name, std::string(kKinds[static_cast<size_t>(sum.kind)]), sum.count,
                          sum.host_ns, sum.host_ns / sum.count, sum.max_ns, sum.work,
                          lost == idle.end() ? int64_t{0} : lost->second});
  }
  return table;
}

ReportTable report_by_site(std::span<const Timeline> timelines) {
  struct Loss {
    int64_t ns = 0;
    int64_t gaps = 0;
  };
  std::map<std::tuple<IdleCause, std::string, std::string, std::string>, Loss> losses;
  visit_all_idle(timelines, [&](const Timeline& timeline, const IdleCharge& charge) {
    const HostCall* const call = charge.call;
    const auto named = [&](uint32_t name) {
      return call == nullptr || name == kNoName ? std::string() : timeline.names[name];
    };
    Loss& loss = call == nullptr ? losses[{charge.cause, "", "", ""}]
                                 : losses[{charge.cause, named(call->name), named(call->site),
                                           named(timeline.context_of(*call).op)}];
    loss.ns += charge.ns;
    ++loss.gaps;
  });
  using Row = decltype(losses)::value_type;
  std::vector<const Row*> rows;
  rows.reserve(losses.size());
  for (const Row& row : losses) {
    rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row* a, const Row* b) { return a->second.ns > b->second.ns; });
  ReportTable table{"stack", {"idle_ns", "gap_count", "cause", "call", "stack", "operator"}, {}};
  for (const Row* row : rows) {
    const auto& [cause, call, site, op] = row->first;
    table.rows.push_back({row->second.ns, row->second.gaps,
                          std::string(kIdleCauseNames[static_cast<size_t>(cause)]),
                          text_or_nothing(call), text_or_nothing(site), text_or_nothing(op)});
  }
  return table;
}

}  // namespace traintrace
