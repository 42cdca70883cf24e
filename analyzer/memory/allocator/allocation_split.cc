#include "analyzer/memory/allocator/allocation_split.h"

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace traintrace {
namespace {

// Allocations that are compared by one hash first: the first one, the next one, the next two, four,
// .., and then always as many.
constexpr size_t kDoublings = 10;
constexpr uint64_t kWindow = uint64_t{1} << kDoublings;

uint64_t end_of_window(size_t index) {
  return index <= kDoublings ? uint64_t{1} << index : (index - kDoublings + 1) * kWindow;
}
uint64_t begin_of_window(size_t index) {
  return index == 0 ? 0 : end_of_window(index - 1);
}

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
  Side(const RankAllocator& of, SamePlace same) : of_(of), same_(same) {
    each([&](uint32_t thread, const Allocation& allocation) {
      ThreadAllocations& all = of_thread(thread);
      all.hash = (all.hash ^ allocation.key) * 0x9e3779b97f4a7c15;
      all.hash ^= all.hash >> 32;
      if (++all.count == end_of_window(all.windows.size())) {
        all.windows.push_back(all.hash);
      }
    });
  }

  std::vector<ThreadAllocations>& threads() { return threads_; }

  void find_wanted() {
    std::vector<uint64_t> counts(threads_.size());
    each([&](uint32_t thread, const Allocation& allocation) {
      const size_t index = numbers_.at(thread);
      const uint64_t count = counts[index]++;
      ThreadAllocations& all = threads_[index];
      if (count >= begin_of_window(all.wanted) && count < end_of_window(all.wanted)) {
        all.found.push_back(allocation);
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
      found->second = place ? std::hash<std::string>()(place_text(*place, same_)) : 0;
    }
    return found->second;
  }

  const RankAllocator of_;
  const SamePlace same_;
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

// For each thread of `high` the one of `other` that is like it for longest; of several the one that
// began to allocate in the same turn.
std::vector<std::optional<size_t>> partners(const std::vector<ThreadAllocations>& high,
                                            const std::vector<ThreadAllocations>& other) {
  constexpr size_t kMostCompared = 512;
  const bool by_turn = std::max(high.size(), other.size()) > kMostCompared;
  std::vector<std::tuple<size_t, bool, size_t, size_t>> pairs;
  for (size_t i = 0; i < high.size(); ++i) {
    for (size_t j = by_turn ? i : 0; j < (by_turn ? std::min(i + 1, other.size()) : other.size());
         ++j) {
      pairs.emplace_back(~first_other_window(high[i], other[j]), i != j, i, j);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<std::optional<size_t>> found(high.size());
  std::vector<bool> taken(other.size());
  for (const auto& [likeness, other_turn, i, j] : pairs) {
    if (!found[i] && !taken[j]) {
      found[i] = j;
      taken[j] = true;
    }
  }
  return found;
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
  return AllocationSplit{begin_of_window(high.wanted) + at,
                         first.time,
                         first.stack,
                         first.bytes,
                         instead.stack,
                         instead.bytes};
}

}  // namespace

std::optional<AllocationSplit> allocation_split(const RankAllocator& high,
                                                const RankAllocator& other, SamePlace same) {
  Side a(high, same);
  Side b(other, same);
  const auto found = partners(a.threads(), b.threads());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) {
      ThreadAllocations& partner = b.threads()[*found[i]];
      a.threads()[i].wanted = partner.wanted = first_other_window(a.threads()[i], partner);
    }
  }
  a.find_wanted();
  b.find_wanted();
  const ThreadAllocations none;
  std::optional<AllocationSplit> first;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto split = split_in(a.threads()[i], found[i] ? b.threads()[*found[i]] : none);
    if (split && (!first || split->time < first->time)) {
      first = split;
    }
  }
  return first;
}

}  // namespace traintrace
