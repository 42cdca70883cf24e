#include "analyzer/memory/allocation_split.h"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/model/code_place.h"

namespace traintrace {
namespace {

constexpr size_t kWindow = 1024;  // allocations that are compared by one hash first

struct Allocation {
  TimeNs time = 0;
  uint32_t stack = 0;
  uint64_t bytes = 0;
  uint64_t key = 0;  // equal for those that are the same
};

struct ThreadAllocations {
  uint64_t count = 0;
  uint64_t hash = 0;
  std::vector<uint64_t> windows;  // hash at the end of each that is full
  size_t wanted = 0;              // window
  std::vector<Allocation> found;  // in that
};

class Side {
 public:
  explicit Side(const RankAllocator& of) : of_(of) {
    each([&](uint32_t thread, const Allocation& allocation) {
      ThreadAllocations& all = of_thread(thread);
      all.hash = (all.hash ^ allocation.key) * 0x9e3779b97f4a7c15;
      all.hash ^= all.hash >> 32;
      if (++all.count % kWindow == 0) {
        all.windows.push_back(all.hash);
      }
    });
  }

  std::vector<ThreadAllocations>& threads() { return threads_; }

  void find_wanted() {
    std::vector<uint64_t> counts(threads_.size());
    each([&](uint32_t thread, const Allocation& allocation) {
      const size_t index = numbers_.at(thread);
      if (counts[index]++ / kWindow == threads_[index].wanted) {
        threads_[index].found.push_back(allocation);
      }
    });
  }

 private:
  template <class See>
  void each(See see) {
    AllocatorEvents(*of_.trace).each([&](const AllocatorEvent& event) {
      if (event.act == AllocatorAct::kTake && event.device == of_.device) {
        const uint64_t key = (event.bytes * 0xff51afd7ed558ccd) ^ place(event.stack);
        see(event.thread, Allocation{event.time, event.stack, event.bytes, key});
      }
    });
  }

  ThreadAllocations& of_thread(uint32_t serial) {
    const auto [found, is_new] = numbers_.try_emplace(serial, threads_.size());
    if (is_new) {
      threads_.emplace_back();
    }
    return threads_[found->second];
  }

  uint64_t place(uint32_t stack) {
    const auto [found, is_new] = places_.try_emplace(stack, 0);
    if (is_new) {
      const auto place = user_place(*of_.trace, of_.rank, stack);
      found->second = place ? std::hash<std::string>()(place_text(*place)) : 0;
    }
    return found->second;
  }

  const RankAllocator of_;
  std::unordered_map<uint32_t, size_t> numbers_;   // of threads_, by serial
  std::unordered_map<uint32_t, uint64_t> places_;  // hashes, by stack
  std::vector<ThreadAllocations> threads_;         // by first allocation
};

size_t first_other_window(const ThreadAllocations& a, const ThreadAllocations& b) {
  const auto end = std::min(a.windows.size(), b.windows.size());
  return static_cast<size_t>(std::mismatch(a.windows.begin(),
                                           a.windows.begin() + static_cast<ptrdiff_t>(end),
                                           b.windows.begin())
                                 .first -
                             a.windows.begin());
}

std::optional<AllocationSplit> split_in(const ThreadAllocations& high,
                                        const ThreadAllocations& other) {
  size_t at = 0;
  while (at < high.found.size() && at < other.found.size() &&
         high.found[at].key == other.found[at].key) {
    ++at;
  }
  if (at == high.found.size()) {
    return std::nullopt;
  }
  const Allocation& first = high.found[at];
  const Allocation instead = at < other.found.size() ? other.found[at] : Allocation();
  return AllocationSplit{high.wanted * kWindow + at,
                         first.time,
                         first.stack,
                         first.bytes,
                         instead.stack,
                         instead.bytes};
}

}  // namespace

std::optional<AllocationSplit> allocation_split(const RankAllocator& high,
                                                const RankAllocator& other) {
  Side a(high);
  Side b(other);
  b.threads().resize(std::max(a.threads().size(), b.threads().size()));
  for (size_t i = 0; i < a.threads().size(); ++i) {
    a.threads()[i].wanted = b.threads()[i].wanted =
        first_other_window(a.threads()[i], b.threads()[i]);
  }
  a.find_wanted();
  b.find_wanted();
  std::optional<AllocationSplit> first;
  for (size_t i = 0; i < a.threads().size(); ++i) {
    const auto split = split_in(a.threads()[i], b.threads()[i]);
    if (split && (!first || split->time < first->time)) {
      first = split;
    }
  }
  return first;
}

}  // namespace traintrace
