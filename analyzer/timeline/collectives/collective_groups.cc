#include "analyzer/timeline/collectives/collective_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/collectives/messages.h"
#include "analyzer/timeline/rank_evidence.h"

namespace traintrace {
namespace {

// As written by the framework; nothing else joins ranks.
struct GroupKey {
  std::string name;
  std::string members;  // "[0, 1]"; empty: not written
  int size = -1;

  auto operator<=>(const GroupKey&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Kernels of one rank that are collectives, by group.
class Collectives {
 public:
  explicit Collectives(const Timeline& timeline)
      : timeline_(timeline), one_to_one_(communicators_of_pairs(timeline)) {}

  std::map<GroupKey, std::vector<GroupKernel>> by_group() const {
    std::map<GroupKey, std::vector<GroupKernel>> groups;
    for (const GpuWork& work : collectives()) {
      const CollectiveNote* const note = note_of(work);
      if (note != nullptr && note->group != kNoName) {
        groups[key_of(*note)].push_back({&work, work.end_ns, note->sequence});
      }
    }
    return groups;
  }

  std::vector<GroupKernel> on_busiest_stream() const {
    std::map<std::pair<int32_t, int32_t>, std::vector<GroupKernel>> streams;
    for (const GpuWork& work : collectives()) {
      if (is_collective(work)) {
        const CollectiveNote* const note = collective_note(timeline_, work.correlation);
        streams[{work.device, work.stream}].push_back(
            {&work, work.end_ns, note == nullptr ? -1 : note->sequence});
      }
    }
    std::vector<GroupKernel> busiest;
    for (auto& [stream, kernels] : streams) {
      if (kernels.size() > busiest.size()) {
        busiest = std::move(kernels);
      }
    }
    return busiest;
  }

 private:
  const std::vector<GpuWork>& collectives() const {
    return timeline_.by_host ? timeline_.entries : timeline_.work;
  }
  bool is_collective(const GpuWork& work) const {
    return work.kind == WorkKind::kCommunication &&
           !is_between_two(timeline_, work.correlation, one_to_one_);
  }
  const CollectiveNote* note_of(const GpuWork& work) const {
    return is_collective(work) ? collective_note(timeline_, work.correlation) : nullptr;
  }
  GroupKey key_of(const CollectiveNote& note) const {
    return {timeline_.names[note.group],
            note.members == kNoName ? "" : timeline_.names[note.members], note.group_size};
  }

  const Timeline& timeline_;
  std::set<uint64_t> one_to_one_;
};

bool all_numbered(const GroupSide& side) {
  return std::all_of(side.kernels.begin(), side.kernels.end(),
                     [](const GroupKernel& kernel) { return kernel.sequence >= 0; });
}

// One for each sequence, from the first start to the last end.
void merge_same(GroupSide& side) {
  std::stable_sort(
      side.kernels.begin(), side.kernels.end(),
      [](const GroupKernel& a, const GroupKernel& b) { return a.sequence < b.sequence; });
  std::vector<GroupKernel> merged;
  for (const GroupKernel& kernel : side.kernels) {
    if (!merged.empty() && merged.back().sequence == kernel.sequence) {
      merged.back().end_ns = std::max(merged.back().end_ns, kernel.end_ns);
    } else {
      merged.push_back(kernel);
    }
  }
  side.kernels = std::move(merged);
}

// Those that all members have: rings begin at different times, and profilers lose ends.
void join_by_sequence(CollectiveGroup& group) {
  std::map<int64_t, size_t> seen;
  for (GroupSide& side : group.sides) {
    merge_same(side);
    for (const GroupKernel& kernel : side.kernels) {
      ++seen[kernel.sequence];
    }
  }
  for (GroupSide& side : group.sides) {
    const size_t left_out = std::erase_if(side.kernels, [&](const GroupKernel& kernel) {
      return seen[kernel.sequence] != group.sides.size();
    });
    group.cut = group.cut || left_out != 0;
  }
  group.numbered = true;
}

void join(CollectiveGroup& group) {
  if (group.sides.size() < 2) {
    group.why_not = "only one rank has a trace";
    return;
  }
  if (std::all_of(group.sides.begin(), group.sides.end(), all_numbered)) {
    join_by_sequence(group);
    if (group.sides.front().kernels.empty()) {
      group.why_not = "no collective that all its ranks recorded";
    }
    return;
  }
  const bool equal =
      std::all_of(group.sides.begin(), group.sides.end(), [&](const GroupSide& side) {
        return side.kernels.size() == group.sides.front().kernels.size();
      });
  if (!equal) {
    group.why_not = "numbers of collectives that differ between the ranks";
  }
}

std::string missing_text(size_t there, size_t all) {
  return "traces of " + std::to_string(there) + " of " + std::to_string(all) + " ranks";
}

std::string unknown_size_text(size_t there) {
  return "traces of " + std::to_string(there) + (there == 1 ? " rank" : " ranks") +
         ", and how many are in it is not known";
}

size_t world_of(std::span<const Timeline> timelines, size_t& ranks) {
  size_t world = timelines.size();
  std::set<int> known;
  for (const Timeline& timeline : timelines) {
    world = std::max(world, static_cast<size_t>(std::max(0, timeline.world_size.value_or(0))));
    if (timeline.rank) {
      known.insert(*timeline.rank);
    }
  }
  ranks = known.size();
  return world;
}

CollectiveGroup group_of_all(std::span<const Timeline> timelines) {
  CollectiveGroup group;
  size_t ranks = 0;
  const size_t world = world_of(timelines, ranks);
  for (size_t i = 0; i < timelines.size(); ++i) {
    group.sides.push_back({i, Collectives(timelines[i]).on_busiest_stream()});
  }
  if (timelines.size() > 1 && ranks < world) {
    group.why_not = missing_text(timelines.size(), world);
    return group;
  }
  const bool no_collectives = std::all_of(group.sides.begin(), group.sides.end(),
                                          [](const auto& side) { return side.kernels.empty(); });
  if (no_collectives && std::any_of(timelines.begin(), timelines.end(), moves_between_ranks)) {
    group.why_not = "messages from rank to rank";
  } else if (!group.sides.empty()) {
    join(group);  // not numbered where the framework wrote no numbers
  }
  return group;
}

}  // namespace

bool is_message(const Timeline& timeline, const CollectiveNote& note) {
  if (note.operation == kNoName) {
    return false;
  }
  const std::string_view operation = timeline.names[note.operation];
  return operation.starts_with("send") || operation.starts_with("recv") ||
         operation.starts_with("ncclSend") || operation.starts_with("ncclRecv");
}

std::vector<CollectiveGroup> collective_groups(std::span<const Timeline> timelines) {
  std::map<GroupKey, CollectiveGroup> groups;
  for (size_t i = 0; i < timelines.size(); ++i) {
    for (auto& [key, kernels] : Collectives(timelines[i]).by_group()) {
      groups[key].sides.push_back({i, std::move(kernels)});
    }
  }
  std::vector<CollectiveGroup> result;
  for (auto& [key, group] : groups) {
    group.name = key.name;
    if (key.size == 1) {
      continue;
    }
    // Where all that there are run its collectives, nothing says that others do.
    const size_t size = key.size < 0 ? timelines.size() : static_cast<size_t>(key.size);
    if (timelines.size() < 2) {
      group.why_not = "only one rank has a trace";
    } else if (group.sides.size() < size) {
      group.why_not = key.size < 0 ? unknown_size_text(group.sides.size())
                                   : missing_text(group.sides.size(), size);
    } else {
      join(group);
    }
    result.push_back(std::move(group));
  }
  if (result.empty() && !timelines.empty()) {
    result.push_back(group_of_all(timelines));
  }
  return result;
}

}  // namespace traintrace
