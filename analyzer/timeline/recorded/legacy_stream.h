// What the legacy default stream made wait: it waits for all streams that were not made to ignore
// it, and they for it, in the order of their launches.  Only calls that were recorded tell: how
// streams were made, and what else they wait for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

class LegacyStream {
 public:
  // By their handles as the job has them, in any order; times as in the timeline.
  void created(uint64_t stream, int64_t time_ns, bool ignores_legacy);
  // Something else may hold up what comes later on it: an event, a value in memory, a function.
  void told_to_wait(uint64_t stream, int64_t time_ns);
  void launched(uint64_t correlation, uint64_t stream, int64_t time_ns);

  // `work` by start.
  std::vector<LegacyWait> waits(const std::vector<GpuWork>& work);

 private:
  enum class Sort : uint8_t { kLegacy, kBlocking, kOther };
  struct Launch {
    uint64_t stream;
    int64_t time_ns;
  };
  struct Creation {
    int64_t time_ns;
    Sort sort;
  };
  struct Item {
    const GpuWork* work = nullptr;
    Launch launch = {};
  };

  // Of one device so far: the newest on each stream, and by sort that which ends last.
  struct Before {
    std::map<int32_t, Item> on_stream;
    Item legacy, blocking;
  };

  Sort sort_of(const Launch& launch) const;
  // `other`: the last to end of the other sort; `previous` on the same stream.
  std::optional<LegacyWait> wait_of(const Item& item, const Item& previous, const Item& other,
                                    bool is_legacy) const;
  bool is_told_between(uint64_t stream, int64_t after_ns, int64_t until_ns) const;

  std::unordered_map<uint64_t, Launch> launches_;
  std::map<uint64_t, std::vector<Creation>> creations_;
  std::map<uint64_t, std::vector<int64_t>> told_;
};

}  // namespace traintrace
