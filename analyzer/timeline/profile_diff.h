// Two runs of one job by their timelines: which part of the time grew, what the GPUs' time was
// spent on, and where the host has begun to wait or no longer does.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/ids.h"
#include "analyzer/thresholds.h"
#include "analyzer/timeline/profile.h"

namespace traintrace {

enum class KernelCategory : uint8_t { kGemm, kAttention, kNccl, kMemory, kOther };
inline constexpr size_t kKernelCategories = 5;
extern const std::array<const char*, kKernelCategories> kKernelCategoryNames;

// By the names that vendors and frameworks give to kernels.
KernelCategory category_of(WorkKind kind, std::string_view name);

// What a window consists of: compute, exposed communication, exposed memory, idle by cause.
inline constexpr size_t kTimeBuckets = 3 + kIdleCauses;
std::string_view bucket_name(size_t bucket);
inline bool is_idle_bucket(size_t bucket) {
  return bucket >= kTimeBuckets - kIdleCauses;
}

// Two figures; means over ranks, per step or over the whole recording.
struct Pair {
  double a = 0;
  double b = 0;
  double change() const { return b - a; }
};

struct SyncChange {
  std::string call;
  std::string site;  // "train.py(31): log_loss"; empty: not known
  Pair count;
  Pair blocked_ns;
};

struct KernelChange {
  std::string name;
  Pair ns;
};

// A part of one rank's time.
struct RankChange {
  Rank rank;
  size_t bucket;
  Pair ns;
};

struct ProfileDiff {
  Ranks ranks;  // of both runs; compared
  Ranks only_in_a, only_in_b;
  // Whether figures are per step: both runs have steps of the same sort.  Else they are over all
  // that was recorded, and only shares of it can be compared.
  bool per_step = false;
  Pair steps;
  Pair window_ns;  // the sum of the buckets
  std::array<Pair, kTimeBuckets> buckets;
  // Parts that grew on these ranks and not on most: not those in which a rank waits for others.
  // By change, largest first; empty without steps.
  std::vector<RankChange> apart;
  Pair waiting;  // then: of the other ranks, what their waiting for ranks takes; means
  std::array<Pair, kKernelCategories> kernels;  // time in them, whatever ran beside
  std::vector<SyncChange> syncs;     // much more often in one of them; by change, largest first
  std::vector<KernelChange> only_a;  // kernels that only A has; by time, longest first
  std::vector<KernelChange> only_b;

  // As a share of A's window or, over whole recordings, between shares of both windows.
  double growth(const Pair& pair) const;
  // By 5 % of a step, or 5 points of a recording: more than two runs of one job differ.
  bool has_grown(const Pair& pair) const { return growth(pair) >= kGrown; }
};

ProfileDiff diff_profiles(const Profile& a, const Profile& b);

}  // namespace traintrace
