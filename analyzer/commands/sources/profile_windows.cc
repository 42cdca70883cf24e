#include "analyzer/commands/sources/profile_windows.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/timeline/collectives/noted_messages.h"
#include "analyzer/timeline/rank_evidence.h"

namespace traintrace {
namespace {

struct ProfileOfRank {
  KinetoTrace trace;
  ProfileBounds bounds;
  std::set<std::string> groups;

  const std::optional<int>& rank() const { return trace.timeline.rank; }
  bool is_told() const { return rank() && trace.timeline.rank_from == RankSource::kTold; }
};

using TracesOfOne = std::vector<ProfileOfRank*>;

bool overlap_in_time(const ProfileOfRank& a, const ProfileOfRank& b) {
  return a.bounds.start < b.bounds.end && b.bounds.start < a.bounds.end;
}

bool meet_in_a_group(const ProfileOfRank& a, const ProfileOfRank& b) {
  return overlap_in_time(a, b) &&
         std::any_of(a.groups.begin(), a.groups.end(),
                     [&](const auto& group) { return b.groups.contains(group); });
}

bool has_rank(const TracesOfOne& part, int rank) {
  return std::any_of(part.begin(), part.end(),
                     [&](const ProfileOfRank* each) { return each->rank() == rank; });
}

bool is_full(const TracesOfOne& part, const ProfileOfRank& own) {
  int world = own.trace.timeline.world_size.value_or(0);
  for (const ProfileOfRank* const each : part) {
    world = std::max(world, each->trace.timeline.world_size.value_or(0));
  }
  return world > 0 && part.size() >= static_cast<size_t>(world);
}

// Two files that name one rank at one time, as those of two nodes do that count their own: these
// names say nothing.
void drop_names_that_clash(std::vector<ProfileOfRank>& all) {
  std::map<int, std::vector<ProfileOfRank*>> by_rank;
  for (ProfileOfRank& each : all) {
    if (each.rank()) {
      by_rank[*each.rank()].push_back(&each);
    }
  }
  std::set<ProfileOfRank*> dropped;
  for (const auto& [rank, same] : by_rank) {
    for (ProfileOfRank* const a : same) {
      const bool clashes = std::any_of(same.begin(), same.end(), [&](const ProfileOfRank* b) {
        return a != b && overlap_in_time(*a, *b);
      });
      if (clashes && !a->is_told()) {
        dropped.insert(a);
      }
    }
  }
  for (ProfileOfRank* const each : dropped) {
    each->trace.timeline.rank.reset();
    each->trace.timeline.messages.clear();
  }
}

// Those that know their rank.  What was told joins the latest window; a name alone only what was
// there at that time.
std::vector<TracesOfOne> parts_of_known(std::vector<ProfileOfRank>& all) {
  std::vector<TracesOfOne> parts;
  size_t told = SIZE_MAX;  // the latest part with a rank that was told
  for (ProfileOfRank& own : all) {
    if (!own.rank()) {
      continue;
    }
    size_t home =
        own.is_told() && told != SIZE_MAX && !has_rank(parts[told], *own.rank()) ? told : SIZE_MAX;
    for (size_t i = parts.size(); i-- > 0 && home == SIZE_MAX;) {
      const bool is_there =
          std::any_of(parts[i].begin(), parts[i].end(), [&](const ProfileOfRank* other) {
            return overlap_in_time(own, *other) && !(own.is_told() && other->is_told());
          });
      home = is_there && !has_rank(parts[i], *own.rank()) ? i : SIZE_MAX;
    }
    if (home == SIZE_MAX) {
      home = parts.size();
      parts.emplace_back();
    }
    parts[home].push_back(&own);
    told = own.is_told() ? home : told;
  }
  return parts;
}

// The others, with whom they meet, directly or by way of others.
void add_unknown(std::vector<ProfileOfRank>& all, std::vector<TracesOfOne>& parts) {
  std::vector<ProfileOfRank*> left;
  for (ProfileOfRank& own : all) {
    if (!own.rank()) {
      left.push_back(&own);
    }
  }
  while (!left.empty()) {
    const auto placed = std::find_if(left.begin(), left.end(), [&](ProfileOfRank* own) {
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        const bool meets = std::any_of(part->begin(), part->end(), [&](const ProfileOfRank* other) {
          return meet_in_a_group(*own, *other);
        });
        if (meets && !is_full(*part, *own)) {
          part->push_back(own);
          return true;
        }
      }
      return false;
    });
    if (placed == left.end()) {
      parts.push_back({left.front()});
      left.erase(left.begin());
    } else {
      left.erase(placed);
    }
  }
}

// Until nothing more follows: who gets a rank leaves one less to the others.
void give_only_ranks(const TracesOfOne& part) {
  std::set<int> taken;
  for (const ProfileOfRank* const each : part) {
    if (each->rank()) {
      taken.insert(*each->rank());
    }
  }
  for (bool again = true; again;) {
    again = false;
    for (ProfileOfRank* const each : part) {
      Timeline& timeline = each->trace.timeline;
      std::optional<std::set<int>> possible =
          timeline.rank ? std::nullopt : possible_ranks(timeline);
      if (!possible) {
        continue;
      }
      std::erase_if(*possible, [&](int rank) { return taken.contains(rank); });
      if (possible->size() == 1) {
        timeline.rank = *possible->begin();
        timeline.rank_from = RankSource::kGroups;
        add_noted_messages(timeline);
        taken.insert(*timeline.rank);
        again = true;
      }
    }
  }
}

void name_windows(std::vector<ProfileWindow>& windows) {
  std::map<std::string, int> count;
  for (ProfileWindow& window : windows) {
    window.name = "profile-" + std::to_string(window.start / 1'000'000);
    if (const int number = ++count[window.name]; number > 1) {
      window.name += "-" + std::to_string(number);
    }
  }
}

}  // namespace

ProfileBounds bounds_of(const Timeline& timeline) {
  if (timeline.work.empty()) {
    return {};
  }
  ProfileBounds bounds{timeline.work.front().start_ns, 0};
  for (const GpuWork& work : timeline.work) {
    bounds.end = std::max(bounds.end, work.end_ns);
  }
  return {timeline.base_ns + bounds.start, timeline.base_ns + bounds.end};
}

std::vector<ProfileWindow> windows_of(std::vector<KinetoTrace> traces) {
  std::vector<ProfileOfRank> all;
  for (KinetoTrace& trace : traces) {
    const ProfileBounds bounds = bounds_of(trace.timeline);
    std::set<std::string> groups = group_names(trace.timeline);
    all.push_back({std::move(trace), bounds, std::move(groups)});
  }
  std::sort(all.begin(), all.end(), [](const ProfileOfRank& a, const ProfileOfRank& b) {
    return std::tie(a.bounds.start, a.trace.timeline.source) <
           std::tie(b.bounds.start, b.trace.timeline.source);
  });
  drop_names_that_clash(all);
  std::vector<TracesOfOne> parts = parts_of_known(all);
  add_unknown(all, parts);
  std::vector<ProfileWindow> windows;
  for (const TracesOfOne& part : parts) {
    give_only_ranks(part);
    ProfileWindow& window = windows.emplace_back();
    window.start = part.front()->bounds.start;
    for (ProfileOfRank* const each : part) {
      window.start = std::min(window.start, each->bounds.start);
      window.traces.push_back(std::move(each->trace));
    }
  }
  std::stable_sort(
      windows.begin(), windows.end(),
      [](const ProfileWindow& a, const ProfileWindow& b) { return a.start < b.start; });
  name_windows(windows);
  return windows;
}

}  // namespace traintrace
