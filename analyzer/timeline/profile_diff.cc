#include "analyzer/timeline/profile_diff.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "analyzer/timeline/median.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {

const std::array<const char*, kKernelCategories> kKernelCategoryNames = {"GEMM", "attention",
                                                                         "NCCL", "memory", "other"};

namespace {

constexpr std::string_view kAttentionWords[] = {"flash", "fmha", "attention", "attn"};
constexpr std::string_view kGemmWords[] = {"gemm",  "gemv",   "matmul", "xmma", "cutlass",
                                           "nvjet", "s16816", "wgmma",  "cijk"};

struct SyncSums {
  double count = 0;
  double blocked_ns = 0;
};

struct Steps {
  double count = 0;     // on the GPU, as far as recorded; 0: not known
  double of_calls = 0;  // on the host
  size_t period = 0;    // pieces of work in one; 0: the job marked them
};

// What one of the runs has, summed over the ranks that are compared.
struct Sums {
  double devices = 0;
  std::optional<Steps> steps;  // of all devices; none: not known of all, or not alike
  double window_ns = 0;
  std::array<double, kTimeBuckets> buckets{};
  std::array<double, kKernelCategories> kernels{};
  std::map<std::string, double> by_name;
  std::map<std::pair<std::string, std::string>, SyncSums> syncs;
};

// Start-up is no part of a step.  By GPU, when its loop began.
std::map<int, int64_t> loop_starts(const Profile& profile, size_t index) {
  std::map<int, int64_t> starts;
  for (const DeviceProfile& device : profile.devices) {
    if (device.timeline == index) {
      starts.emplace(device.device, device.loop.begin_ns);
    }
  }
  return starts;
}

Steps steps_of(const Profile& profile, size_t index) {
  const Timeline& timeline = profile.timelines[index];
  if (!timeline.step_starts.empty()) {
    Steps steps = {0, static_cast<double>(timeline.step_starts.size()), 0};
    for (const DeviceProfile& device : profile.devices) {
      steps.count = std::max(steps.count, device.timeline == index ? device.recorded_steps : 0);
    }
    return steps;
  }
  const std::optional<StepPeriod> period = find_step_period(timeline);
  if (!period) {
    return {};
  }
  std::map<std::pair<int32_t, int32_t>, size_t> pieces;
  size_t most = 0;
  const std::map<int, int64_t> loops = loop_starts(profile, index);
  for (const GpuWork& work : timeline.work) {
    if (work.start_ns >= loops.at(work.device)) {
      most = std::max(most, ++pieces[{work.device, work.stream}]);
    }
  }
  const double count = static_cast<double>(most) / static_cast<double>(period->work);
  return {count, count, period->work};
}

void add_device(const DeviceProfile& device, Sums& sums) {
  ++sums.devices;
  const TimePartition& times = device.times;
  sums.window_ns += static_cast<double>(times.window_ns);
  const std::array<int64_t, 3> busy = {times.compute_ns, times.exposed_communication_ns,
                                       times.exposed_memory_ns};
  for (size_t i = 0; i < kTimeBuckets; ++i) {
    sums.buckets[i] +=
        static_cast<double>(i < busy.size() ? busy[i] : device.idle[i - busy.size()]);
  }
}

void add_timeline(const Profile& profile, size_t index, double devices, Sums& sums) {
  const Timeline& timeline = profile.timelines[index];
  const std::map<int, int64_t> loops = loop_starts(profile, index);
  for (const GpuWork& work : timeline.work) {
    if (work.end_ns <= loops.at(work.device)) {
      continue;
    }
    const std::string& name = timeline.names[work.name];
    const auto ns = static_cast<double>(work.end_ns - work.start_ns);
    sums.kernels[static_cast<size_t>(category_of(work.kind, name))] += ns;
    sums.by_name[name] += ns;
  }
  const int64_t began = loops.empty() ? 0 : loops.begin()->second;
  for (const HostCall& call : timeline.calls) {
    if (call.kind == HostCallKind::kBlocking && call.end_ns > began) {
      SyncSums& sync = sums.syncs[{timeline.names[call.name],
                                   call.site == kNoName ? "" : timeline.names[call.site]}];
      ++sync.count;
      sync.blocked_ns += static_cast<double>(call.end_ns - call.start_ns);
    }
  }
  const Steps steps = steps_of(profile, index);
  const bool first = sums.devices == devices;
  if (first && steps.count > 0) {
    sums.steps = Steps{steps.count * devices, steps.of_calls * devices, steps.period};
  } else if (sums.steps && sums.steps->period == steps.period && steps.count > 0) {
    sums.steps->count += steps.count * devices;
    sums.steps->of_calls += steps.of_calls * devices;
  } else {
    sums.steps.reset();
  }
}

Sums sums_of(const Profile& profile, const Ranks& ranks) {
  Sums sums;
  for (size_t i = 0; i < profile.timelines.size(); ++i) {
    if (!contains(ranks, {*profile.timelines[i].rank})) {
      continue;
    }
    double devices = 0;
    for (const DeviceProfile& device : profile.devices) {
      if (device.timeline == i) {
        add_device(device, sums);
        ++devices;
      }
    }
    add_timeline(profile, i, devices, sums);
  }
  return sums;
}

// Steps found by what repeats are the same ones only if about as much work is in them.
bool comparable(const Sums& a, const Sums& b) {
  if (!a.steps || !b.steps || (a.steps->period == 0) != (b.steps->period == 0)) {
    return false;
  }
  const auto [less, more] = std::minmax(a.steps->period, b.steps->period);
  return more <= less + less / 2;
}

// What per step, or per device where that is not possible.
class Scale {
 public:
  Scale(const Sums& a, const Sums& b, bool per_step, double Steps::*count = &Steps::count)
      : a_(per_step ? *a.steps.*count : a.devices), b_(per_step ? *b.steps.*count : b.devices) {}
  Pair pair(double a, double b) const { return {a_ > 0 ? a / a_ : 0, b_ > 0 ? b / b_ : 0}; }

 private:
  double a_, b_;
};

void add_syncs(const Sums& a, const Sums& b, const Scale& scale, ProfileDiff& diff) {
  std::map<std::pair<std::string, std::string>, std::pair<SyncSums, SyncSums>> all;
  for (const auto& [key, sums] : a.syncs) {
    all[key].first = sums;
  }
  for (const auto& [key, sums] : b.syncs) {
    all[key].second = sums;
  }
  for (const auto& [key, sums] : all) {
    const Pair count = scale.pair(sums.first.count, sums.second.count);
    // Recordings of other lengths: only what one of them never does.
    const bool changed = diff.per_step
                             ? std::abs(count.change()) >= kMoreOften
                             : std::min(count.a, count.b) == 0 && std::max(count.a, count.b) >= 2;
    if (changed) {
      diff.syncs.push_back({key.first, key.second, count,
                            scale.pair(sums.first.blocked_ns, sums.second.blocked_ns)});
    }
  }
  std::stable_sort(diff.syncs.begin(), diff.syncs.end(),
                   [](const SyncChange& x, const SyncChange& y) {
                     return std::abs(x.count.change()) > std::abs(y.count.change());
                   });
}

double sum_of(const std::array<double, kKernelCategories>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  return sum;
}

void add_kernels(const Sums& a, const Sums& b, const Scale& scale, ProfileDiff& diff) {
  for (const auto& [name, ns] : a.by_name) {
    if (!b.by_name.contains(name) && ns >= kKernelShare * sum_of(a.kernels)) {
      diff.only_a.push_back({name, scale.pair(ns, 0)});
    }
  }
  for (const auto& [name, ns] : b.by_name) {
    if (!a.by_name.contains(name) && ns >= kKernelShare * sum_of(b.kernels)) {
      diff.only_b.push_back({name, scale.pair(0, ns)});
    }
  }
  for (std::vector<KernelChange>* const kernels : {&diff.only_a, &diff.only_b}) {
    std::stable_sort(kernels->begin(), kernels->end(),
                     [](const KernelChange& x, const KernelChange& y) {
                       return x.ns.a + x.ns.b > y.ns.a + y.ns.b;
                     });
  }
}

Ranks ranks_of(const Profile& profile) {
  Ranks ranks;
  for (const Timeline& timeline : profile.timelines) {
    insert(ranks, {*timeline.rank});
  }
  return ranks;
}

void add_ranks(const Profile& a, const Profile& b, ProfileDiff& diff) {
  const Ranks of_a = ranks_of(a);
  const Ranks of_b = ranks_of(b);
  for (const Rank rank : of_a) {
    insert(contains(of_b, rank) ? diff.ranks : diff.only_in_a, rank);
  }
  for (const Rank rank : of_b) {
    if (!contains(of_a, rank)) {
      insert(diff.only_in_b, rank);
    }
  }
}

// In which a rank waits for others.
bool is_waiting(size_t bucket) {
  constexpr std::string_view kWaiting[] = {"exposed-communication", "communication-wait",
                                           "straggler-wait", "host-peer-wait"};
  return std::find(std::begin(kWaiting), std::end(kWaiting), bucket_name(bucket)) !=
         std::end(kWaiting);
}

struct RankBuckets {
  Rank rank;
  std::array<Pair, kTimeBuckets> buckets;
};

std::vector<RankBuckets> buckets_by_rank(const Profile& a, const Profile& b, const Ranks& ranks) {
  std::vector<RankBuckets> all;
  for (const Rank rank : ranks) {
    const Sums of_a = sums_of(a, {rank});
    const Sums of_b = sums_of(b, {rank});
    if (!comparable(of_a, of_b)) {
      return {};
    }
    const Scale scale(of_a, of_b, true);
    RankBuckets& each = all.emplace_back(RankBuckets{rank, {}});
    for (size_t i = 0; i < kTimeBuckets; ++i) {
      each.buckets[i] = scale.pair(of_a.buckets[i], of_b.buckets[i]);
    }
  }
  return all;
}

// Of one part: the ranks on which it grew by so much more than usual.
void add_apart(const std::vector<RankBuckets>& ranks, size_t bucket, ProfileDiff& diff) {
  std::vector<int64_t> changes;
  changes.reserve(ranks.size());
  for (const RankBuckets& each : ranks) {
    changes.push_back(std::llround(each.buckets[bucket].change()));
  }
  const auto usual = static_cast<double>(median_or_lesser(changes));
  std::vector<RankChange> apart;
  for (const RankBuckets& each : ranks) {
    const Pair& pair = each.buckets[bucket];
    if (diff.has_grown(pair) && diff.has_grown({usual, pair.change()})) {
      apart.push_back({each.rank, bucket, pair});
    }
  }
  if (apart.size() == 1 || 2 * apart.size() < ranks.size()) {
    std::move(apart.begin(), apart.end(), std::back_inserter(diff.apart));
  }
}

void add_ranks_apart(const Profile& a, const Profile& b, ProfileDiff& diff) {
  if (!diff.per_step || diff.ranks.size() < 2 || !diff.has_grown(diff.window_ns)) {
    return;
  }
  const std::vector<RankBuckets> ranks = buckets_by_rank(a, b, diff.ranks);
  for (size_t bucket = 0; bucket < kTimeBuckets && !ranks.empty(); ++bucket) {
    if (!is_waiting(bucket)) {
      add_apart(ranks, bucket, diff);
    }
  }
  std::stable_sort(
      diff.apart.begin(), diff.apart.end(),
      [](const RankChange& x, const RankChange& y) { return x.ns.change() > y.ns.change(); });
  double others = 0;
  for (const RankBuckets& each : ranks) {
    if (std::any_of(diff.apart.begin(), diff.apart.end(),
                    [&](const RankChange& apart) { return apart.rank == each.rank; })) {
      continue;
    }
    ++others;
    for (size_t bucket = 0; bucket < kTimeBuckets; ++bucket) {
      diff.waiting.a += is_waiting(bucket) ? each.buckets[bucket].a : 0;
      diff.waiting.b += is_waiting(bucket) ? each.buckets[bucket].b : 0;
    }
  }
  diff.waiting = {diff.waiting.a / std::max(1.0, others), diff.waiting.b / std::max(1.0, others)};
}

}  // namespace

KernelCategory category_of(WorkKind kind, std::string_view name) {
  if (kind != WorkKind::kCompute) {
    return kind == WorkKind::kMemory ? KernelCategory::kMemory : KernelCategory::kNccl;
  }
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&](std::string_view word) { return lower.find(word) != lower.npos; };
  // First: kernels of attention are built from parts made for products of matrices.
  if (std::any_of(std::begin(kAttentionWords), std::end(kAttentionWords), has)) {
    return KernelCategory::kAttention;
  }
  return std::any_of(std::begin(kGemmWords), std::end(kGemmWords), has) ? KernelCategory::kGemm
                                                                        : KernelCategory::kOther;
}

std::string_view bucket_name(size_t bucket) {
  constexpr std::string_view kBusy[] = {"compute", "exposed-communication", "exposed-memory"};
  return bucket < std::size(kBusy) ? kBusy[bucket] : kIdleCauseNames[bucket - std::size(kBusy)];
}

double ProfileDiff::growth(const Pair& pair) const {
  if (window_ns.a <= 0 || window_ns.b <= 0) {
    return 0;
  }
  return per_step ? pair.change() / window_ns.a : pair.b / window_ns.b - pair.a / window_ns.a;
}

ProfileDiff diff_profiles(const Profile& a, const Profile& b) {
  ProfileDiff diff;
  add_ranks(a, b, diff);
  const Sums of_a = sums_of(a, diff.ranks);
  const Sums of_b = sums_of(b, diff.ranks);
  diff.per_step = comparable(of_a, of_b);
  const Scale scale(of_a, of_b, diff.per_step);
  const Scale by_device(of_a, of_b, false);
  diff.steps =
      by_device.pair(of_a.steps ? of_a.steps->count : 0, of_b.steps ? of_b.steps->count : 0);
  diff.window_ns = scale.pair(of_a.window_ns, of_b.window_ns);
  for (size_t i = 0; i < kTimeBuckets; ++i) {
    diff.buckets[i] = scale.pair(of_a.buckets[i], of_b.buckets[i]);
  }
  for (size_t i = 0; i < kKernelCategories; ++i) {
    diff.kernels[i] = scale.pair(of_a.kernels[i], of_b.kernels[i]);
  }
  add_ranks_apart(a, b, diff);
  add_syncs(of_a, of_b, Scale(of_a, of_b, diff.per_step, &Steps::of_calls), diff);
  add_kernels(of_a, of_b, scale, diff);
  return diff;
}

}  // namespace traintrace
