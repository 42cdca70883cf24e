#include "analyzer/detectors/lost_time/same_work.h"

#include <algorithm>
#include <optional>
#include <set>

#include "analyzer/thresholds.h"
#include "analyzer/timeline/median.h"

namespace traintrace {
namespace {

using Runs = std::deque<KernelRun>;

void sort_by_length(Runs& runs) {
  std::stable_sort(runs.begin(), runs.end(),
                   [](const KernelRun& a, const KernelRun& b) { return a.ns < b.ns; });
}

// Of other stages, which may have run it more often or more rarely.
const KernelRun& run_like(const Runs& runs, size_t index, size_t of) {
  return runs[std::min(runs.size() - 1, (2 * index + 1) * runs.size() / (2 * of))];
}

// How long the others take for a run.
struct Usual {
  int64_t ns;
  std::optional<int64_t> beside_ns;  // with as much beside it; none: nothing can be said
};

Usual usual_of(const Runs& own, size_t index, const std::vector<const Runs*>& others) {
  std::vector<int64_t> all, beside;
  for (const Runs* const runs : others) {
    const KernelRun& run = run_like(*runs, index, own.size());
    all.push_back(run.ns);
    if (run.beside >= own[index].beside) {
      beside.push_back(run.ns);
    }
  }
  const int64_t usual = upper_median(std::move(all));
  if (own[index].beside == kDisturbed || beside.empty()) {
    return {usual, std::nullopt};
  }
  return {usual, std::max(usual, upper_median(std::move(beside)))};
}

// When a kernel runs beside what may depend on how late its stage is: so the runs that count have
// to be from half of the window's parts, and all together have to take longer, too.
void compare(Runs own, const std::vector<const Runs*>& others, size_t parts, SameWork& work) {
  sort_by_length(own);
  double all_ns = 0;
  double compared_ns = 0;
  double usual_ns = 0;
  std::vector<int64_t> of_all, of_compared;
  std::set<size_t> seen;
  for (size_t i = 0; i < own.size(); ++i) {
    const Usual usual = usual_of(own, i, others);
    all_ns += static_cast<double>(own[i].ns);
    if (usual.ns <= 0) {
      continue;
    }
    of_all.push_back(per_mille(own[i].ns, usual.ns));
    if (usual.beside_ns) {
      of_compared.push_back(per_mille(own[i].ns, *usual.beside_ns));
      compared_ns += static_cast<double>(own[i].ns);
      usual_ns += static_cast<double>(*usual.beside_ns);
      seen.insert(own[i].part);
    }
  }
  if (of_compared.size() < kSlowDeviceSamples || 2 * seen.size() < parts || compared_ns <= 0) {
    return;
  }
  ++work.kernels;
  work.ns += all_ns;
  work.longer_ns += all_ns * (1 - usual_ns / compared_ns);
  work.all_longer =
      work.all_longer && is_slower(std::move(of_compared)) && is_slower(std::move(of_all));
}

}  // namespace

KernelRuns runs_together(const std::vector<KernelRuns>& all) {
  KernelRuns together;
  for (const KernelRuns& each : all) {
    for (const auto& [kernel, runs] : each) {
      Runs& known = together[kernel];
      known.insert(known.end(), runs.begin(), runs.end());
    }
  }
  for (auto& [kernel, runs] : together) {
    sort_by_length(runs);
  }
  return together;
}

bool SameWork::is_longer() const {
  return kernels >= kSlowDeviceKernels && all_longer &&
         longer_ns >= (kSlowDeviceSlower - 1) * (ns - longer_ns);
}

double SameWork::share_of_usual() const {
  return ns <= 0 ? 1 : std::clamp(1 - longer_ns / ns, 0.0, 1.0);
}

SameWork same_work(const KernelRuns& own, const std::vector<const KernelRuns*>& others,
                   size_t parts) {
  SameWork work;
  for (const auto& [kernel, runs] : own) {
    std::vector<const Runs*> of_others;
    for (const KernelRuns* const other : others) {
      if (const auto found = other->find(kernel); found != other->end()) {
        of_others.push_back(&found->second);
      }
    }
    if (kernel.second != 0 && of_others.size() == others.size()) {
      compare(runs, of_others, parts, work);
    }
  }
  return work;
}

}  // namespace traintrace
