#include "analyzer/memory/allocator/pending_frees.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "analyzer/memory/allocator/allocator_events.h"

namespace traintrace {
namespace {

class FreesInOrder {
 public:
  void see(const AllocatorEvent& event) {
    std::vector<uint64_t>& marks = marks_[event.thread];
    switch (event.act) {
      case AllocatorAct::kMark:
        pass(event);  // it is used again, so what it stood for is over
        marks.push_back(event.address);
        return;
      case AllocatorAct::kPassed:
        return pass(event);
      case AllocatorAct::kGive:
        add(event, marks);
        break;
      case AllocatorAct::kTake:
      case AllocatorAct::kUnmap:
        end_within(event);
        break;
      default:
        break;
    }
    marks.clear();
  }

  std::vector<PendingFree> finish() {
    for (const auto& [place, entry] : open_) {
      ended_.push_back(entry.free);
    }
    std::sort(ended_.begin(), ended_.end(), [](const PendingFree& a, const PendingFree& b) {
      return std::tie(a.device, a.address, a.freed) < std::tie(b.device, b.address, b.freed);
    });
    return std::move(ended_);
  }

 private:
  using Place = std::pair<int, uint64_t>;  // device, address
  struct Entry {
    PendingFree free;
    size_t marks = 0;
  };
  using Entries = std::map<Place, Entry>;

  void add(const AllocatorEvent& event, const std::vector<uint64_t>& marks) {
    if (marks.empty()) {
      return;
    }
    const Place place(event.device, event.address);
    open_[place] = {{event.device, event.address, event.bytes, event.time, 0}, marks.size()};
    for (const uint64_t mark : marks) {
      waiting_.emplace(mark, place);
    }
  }

  Entries::iterator end(Entries::iterator entry, TimeNs time) {
    entry->second.free.done = std::max(time, entry->second.free.freed);
    ended_.push_back(entry->second.free);
    return open_.erase(entry);
  }

  void pass(const AllocatorEvent& event) {
    const auto [first, last] = waiting_.equal_range(event.address);
    for (auto waiting = first; waiting != last; ++waiting) {
      const auto entry = open_.find(waiting->second);
      if (entry != open_.end() && --entry->second.marks == 0) {
        end(entry, event.time);
      }
    }
    waiting_.erase(first, last);
  }

  // Whose end was not seen.
  void end_within(const AllocatorEvent& event) {
    const uint64_t bytes = std::max<uint64_t>(event.bytes, 1);
    auto entry = open_.upper_bound({event.device, event.address});
    if (entry != open_.begin()) {
      const auto before = std::prev(entry);
      entry = before->first.first == event.device &&
                      event.address - before->first.second < before->second.free.bytes
                  ? before
                  : entry;
    }
    while (entry != open_.end() && entry->first.first == event.device &&
           (entry->first.second <= event.address || entry->first.second - event.address < bytes)) {
      entry = end(entry, event.time);
    }
  }

  std::unordered_map<uint32_t, std::vector<uint64_t>> marks_;  // since its last report, by thread
  Entries open_;
  std::unordered_multimap<uint64_t, Place> waiting_;  // by mark
  std::vector<PendingFree> ended_;
};

}  // namespace

std::vector<PendingFree> pending_frees(const ProcessTrace& trace) {
  FreesInOrder frees;
  AllocatorEvents(trace).each([&](const AllocatorEvent& event) { frees.see(event); });
  return frees.finish();
}

}  // namespace traintrace
