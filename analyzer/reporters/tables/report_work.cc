// What GPUs did, by kernel and by what of the framework launched it; and how fast collectives were.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/reporters/tables/report_table.h"
#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/collectives/bandwidth.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/products/products.h"

namespace traintrace {
namespace {

constexpr const char* kWorkKinds[] = {"compute", "communication", "memory"};
constexpr int64_t kPercentE4 = 1'000'000;

struct WorkSums {
  std::set<const Timeline*> processes;
  int64_t launches = 0, work = 0, gpu_ns = 0, max_ns = 0;
  int64_t idle_before_ns = 0, gaps = 0, idle_caused_ns = 0;
  uint64_t flops = 0;
  int64_t flops_ns = 0;  // of the work that did them
};

using WorkRows = std::map<std::pair<std::string, std::string>, WorkSums>;  // by name, kind

uint32_t name_in(const CallContext& context, WorkGroup group) {
  switch (group) {
    case WorkGroup::kOperator:
      return context.op;
    case WorkGroup::kAnnotation:
      return context.annotation;
    default:
      return context.module;
  }
}

class WorkGroups {
 public:
  WorkGroups(const Timeline& timeline, WorkGroup group, WorkRows& rows)
      : timeline_(timeline), group_(group), rows_(rows) {
    for (const HostCall& call : timeline.calls) {
      if (call.correlation != 0) {
        launches_[call.correlation] = &call;
      }
    }
  }

  void add_all() {
    std::map<int, std::vector<GpuWork>> devices;
    std::set<uint64_t> launched;
    for (const GpuWork& work : timeline_.work) {
      devices[work.device].push_back(work);
      WorkSums& sums = row_of(work);
      const int64_t ns = work.end_ns - work.start_ns;
      sums.processes.insert(&timeline_);
      ++sums.work;
      sums.gpu_ns += ns;
      sums.max_ns = std::max(sums.max_ns, ns);
      sums.launches += work.correlation != 0 && launched.insert(work.correlation).second ? 1 : 0;
      add_product(work, sums);
    }
    for (const auto& [device, work] : devices) {
      add_idle(work);
    }
  }

 private:
  std::string name_of(const HostCall* call) const {
    const uint32_t name = call == nullptr ? kNoName : name_in(timeline_.context_of(*call), group_);
    return name == kNoName ? "" : timeline_.names[name];
  }
  WorkSums& row_of(const GpuWork& work) {
    const auto launch = launches_.find(work.correlation);
    const std::string name = group_ == WorkGroup::kKernel
                                 ? timeline_.names[work.name]
                                 : name_of(launch == launches_.end() ? nullptr : launch->second);
    // Operators, annotations and modules launch work of all kinds.
    return rows_[{name,
                  group_ == WorkGroup::kKernel ? kWorkKinds[static_cast<size_t>(work.kind)] : ""}];
  }
  void add_product(const GpuWork& work, WorkSums& sums);
  void add_idle(const std::vector<GpuWork>& work) {
    const GpuWork* last = nullptr;
    visit_idle(timeline_, work, [&](const IdleCharge& charge) {
      WorkSums& before = row_of(*charge.next);
      before.idle_before_ns += charge.ns;
      before.gaps += charge.next == last ? 0 : 1;
      last = charge.next;
      if (group_ != WorkGroup::kKernel && charge.call != nullptr) {
        rows_[{name_of(charge.call), ""}].idle_caused_ns += charge.ns;
      }
    });
  }

  const Timeline& timeline_;
  WorkGroup group_;
  WorkRows& rows_;
  std::unordered_map<uint64_t, const HostCall*> launches_;
  std::set<uint64_t> counted_;
};

void WorkGroups::add_product(const GpuWork& work, WorkSums& sums) {
  const MatrixProduct* const product = product_of(timeline_, work.correlation);
  const std::optional<int64_t> flops =
      product == nullptr || !product->is_plain ? std::nullopt : flops_of(*product);
  if (flops && work.kind == WorkKind::kCompute && counted_.insert(work.correlation).second) {
    sums.flops += static_cast<uint64_t>(*flops);
    sums.flops_ns += work.end_ns - work.start_ns;
  }
}

ReportCell name_cell(const std::string& text) {
  return text.empty() ? ReportCell() : ReportCell(text);
}

ReportCell decimal_cell(std::optional<double> value) {
  constexpr double kWhole = 1e4;
  return value ? ReportCell(ReportDecimal{std::llround(*value * kWhole)}) : ReportCell();
}

}  // namespace

ReportTable report_by_work(std::span<const Timeline> timelines, WorkGroup group) {
  constexpr const char* kNames[] = {"operator", "annotation", "module", "kernel"};
  const std::string by = kNames[static_cast<size_t>(group)];
  WorkRows rows;
  for (const Timeline& timeline : timelines) {
    WorkGroups(timeline, group, rows).add_all();
  }
  int64_t all_ns = 0;
  std::vector<const WorkRows::value_type*> sorted;
  for (const WorkRows::value_type& row : rows) {
    all_ns += row.second.gpu_ns;
    sorted.push_back(&row);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return a->second.gpu_ns > b->second.gpu_ns;
  });
  const bool of_kernels = group == WorkGroup::kKernel;
  ReportTable table{
      by,
      {by, of_kernels ? "kind" : "idle_caused_ns", "rank_count", "launch_count", "work_count",
       "gpu_ns", "share_percent", "mean_ns", "max_ns", "idle_before_ns", "gap_count", "tflops"},
      {}};
  for (const auto* row : sorted) {
    const WorkSums& sums = row->second;
    std::vector<ReportCell>& cells = table.rows.emplace_back();
    cells.push_back(name_cell(row->first.first));
    cells.push_back(of_kernels ? ReportCell(row->first.second) : ReportCell(sums.idle_caused_ns));
    for (const int64_t value :
         {static_cast<int64_t>(sums.processes.size()), sums.launches, sums.work, sums.gpu_ns}) {
      cells.emplace_back(value);
    }
    const auto share = static_cast<__int128>(sums.gpu_ns) * kPercentE4;
    cells.emplace_back(ReportDecimal{all_ns == 0 ? 0 : static_cast<int64_t>(share / all_ns)});
    for (const int64_t value : {sums.work == 0 ? 0 : sums.gpu_ns / sums.work, sums.max_ns,
                                sums.idle_before_ns, sums.gaps}) {
      cells.emplace_back(value);
    }
    constexpr double kFlopsPerNs = 1e3;  // of one TFLOP/s
    cells.push_back(decimal_cell(
        sums.flops_ns <= 0 ? std::nullopt
                           : std::optional(static_cast<double>(sums.flops) /
                                           static_cast<double>(sums.flops_ns) / kFlopsPerNs)));
  }
  return table;
}

ReportTable report_by_collective(std::span<const Timeline> timelines) {
  ReportTable table{"collective",
                    {"operation", "communicator", "communicator_size", "size_bytes", "count",
                     "median_ns", "measured", "algorithm_gb_per_s", "bus_gb_per_s"},
                    {}};
  for (const CollectiveSpeed& speed : collective_speeds(timelines, find_arrivals(timelines))) {
    std::vector<ReportCell>& cells = table.rows.emplace_back();
    cells.push_back(name_cell(speed.operation));
    cells.push_back(name_cell(speed.group));
    cells.push_back(speed.ranks < 0 ? ReportCell() : ReportCell(int64_t{speed.ranks}));
    cells.push_back(speed.bytes < 0 ? ReportCell() : ReportCell(speed.bytes));
    cells.emplace_back(speed.count);
    cells.emplace_back(speed.median_ns);
    cells.emplace_back(std::string(speed.without_waiting ? "transfer" : "transfer and waiting"));
    cells.push_back(decimal_cell(speed.algorithm_gbps()));
    cells.push_back(decimal_cell(speed.bus_gbps()));
  }
  return table;
}

}  // namespace traintrace
