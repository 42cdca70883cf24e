#include "analyzer/timeline/collectives/peer_waits.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/timeline/collectives/arrivals.h"
#include "analyzer/timeline/sums.h"

namespace traintrace {
namespace {

class Waits {
 public:
  explicit Waits(const Profile& profile) : profile_(profile) {
    for (const Timeline& timeline : profile.timelines) {
      std::vector<int64_t>& ends = until_.emplace_back();
      for (const GpuWork& work : timeline.work) {
        ends.push_back(work.start_ns);
      }
    }
  }

  std::vector<std::vector<int64_t>> take() {
    for (const Arrivals& arrivals : profile_.groups) {
      for (size_t i = 0; arrivals.usable() && !arrivals.by_host && i < arrivals.members.size();
           ++i) {
        add(arrivals, i);
      }
    }
    for (const MatchedMessage& message : profile_.messages) {
      const int64_t both_ns = std::max(message.send.start_ns, message.receive.start_ns);
      add(message.send, both_ns);
      add(message.receive, both_ns);
    }
    return std::move(until_);
  }

 private:
  // A kernel with several messages moves data as soon as one of its peers has come.
  void add(const MessageSide& side, int64_t both_ns) {
    const GpuWork& work = profile_.timelines[side.timeline].work[side.work];
    const int64_t until =
        std::min(work.end_ns, added_within(work.start_ns, both_ns - side.start_ns));
    int64_t& known = until_[side.timeline][side.work];
    known = known == work.start_ns ? until : std::min(known, until);
  }

  void add(const Arrivals& arrivals, size_t member) {
    const Timeline& timeline = profile_.timelines[arrivals.members[member]];
    std::unordered_map<uint64_t, int64_t> waited;  // by kernel
    for (const Arrival& arrival : arrivals.list) {
      if (arrival.is_known()) {
        waited[arrival.correlation[member]] = arrival.wait_of(member);
      }
    }
    for (size_t i = 0; i < timeline.work.size(); ++i) {
      const GpuWork& work = timeline.work[i];
      const auto found =
          work.kind == WorkKind::kCommunication ? waited.find(work.correlation) : waited.end();
      if (found != waited.end() && found->second > 0) {
        until_[arrivals.members[member]][i] =
            std::min(work.end_ns, added_within(work.start_ns, found->second));
      }
    }
  }

  const Profile& profile_;
  std::vector<std::vector<int64_t>> until_;
};

}  // namespace

std::vector<std::vector<int64_t>> waited_until(const Profile& profile) {
  return Waits(profile).take();
}

}  // namespace traintrace
