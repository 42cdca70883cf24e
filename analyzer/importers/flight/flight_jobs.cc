#include "analyzer/importers/flight/flight_jobs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "analyzer/importers/flight/flight_clocks.h"
#include "analyzer/importers/flight/flight_names.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

bool fits(const FlightDump& dump, int rank) {
  return std::all_of(dump.groups.begin(), dump.groups.end(), [&](const FlightGroup& group) {
    return group.ranks.empty() ||
           std::find(group.ranks.begin(), group.ranks.end(), rank) != group.ranks.end();
  });
}

// By the place that its sends and receives, or a group of its own, give it; none where they
// contradict each other.
std::optional<int> rank_inside(const FlightDump& dump) {
  std::set<int> told;
  for (size_t i = 0; i < dump.groups.size(); ++i) {
    const std::vector<int>& ranks = dump.groups[i].ranks;
    const int place = ranks.size() == 1 ? 0 : dump.trace.communicators[i].rank;
    if (place >= 0 && static_cast<size_t>(place) < ranks.size()) {
      told.insert(ranks[static_cast<size_t>(place)]);
    }
  }
  return told.size() == 1 ? std::optional(*told.begin()) : std::nullopt;
}

using Ranking = std::vector<std::optional<int>>;

// Distinct, but for those that are not known.
bool are_distinct(const Ranking& ranking) {
  std::set<int> taken;
  return std::all_of(ranking.begin(), ranking.end(), [&](const std::optional<int>& rank) {
    return !rank || taken.insert(*rank).second;
  });
}

bool are_all(const Ranking& ranking) {  // 0..n-1
  return std::all_of(ranking.begin(), ranking.end(), [&](const std::optional<int>& rank) {
    return rank && static_cast<size_t>(*rank) < ranking.size();
  });
}

// The ranks of the dumps of one job.
class Placing {
 public:
  explicit Placing(const std::vector<FlightFile*>& files) : files_(files) {
    for (const FlightFile* file : files) {
      said_.push_back(file->dump.rank ? file->dump.rank : rank_inside(file->dump));
    }
  }

  // Empty: two claim the same rank.
  Ranking ranking() const {
    if (std::all_of(said_.begin(), said_.end(), [](const auto& rank) { return rank; })) {
      return are_distinct(said_) ? said_ : Ranking();
    }
    // What is called a rank is one, or nothing is.
    const bool named = std::all_of(files_.begin(), files_.end(), [](const FlightFile* file) {
      return !named_ranks_in_name(file->dump.trace.source).empty();
    });
    Ranking found = best_of(rankings_by(named ? named_ranks_in_name : ranks_in_name));
    if (found.empty() && !named) {
      // Folders have numbers of other meanings too: only one for each rank of the job will do.
      found = best_of(rankings_by(numbers_in_folders));
      found = is_world(found) ? found : Ranking();
    }
    if (!found.empty()) {
      return found;
    }
    Ranking each = by_name_alone();
    return are_distinct(each) ? each : Ranking();
  }

  // What is left of that if only one of those that claim a rank can be right.
  Ranking undisputed() const {
    Ranking each = by_name_alone();
    std::map<int, int> claims;
    for (const std::optional<int>& rank : each) {
      claims[rank.value_or(-1)] += 1;
    }
    for (std::optional<int>& rank : each) {
      rank = rank && claims[*rank] > 1 ? std::nullopt : rank;
    }
    return each;
  }

 private:
  // Each by the number at one place of all names, if no two have the same and the groups allow it.
  std::vector<Ranking> rankings_by(std::vector<int> (*numbers)(const std::string&)) const {
    std::vector<std::vector<int>> all;
    size_t places = SIZE_MAX;
    for (size_t i = 0; i < files_.size(); ++i) {
      all.push_back(numbers(files_[i]->dump.trace.source));
      places = said_[i] ? places : std::min(places, all.back().size());
    }
    std::vector<Ranking> rankings;
    for (size_t place = 0; place < places; ++place) {
      Ranking ranking = said_;
      bool possible = true;
      for (size_t i = 0; i < files_.size() && possible; ++i) {
        const bool has = place < all[i].size();
        ranking[i] = said_[i] ? said_[i] : std::optional(all[i][place]);
        possible =
            said_[i] ? !has || all[i][place] == *said_[i] : fits(files_[i]->dump, *ranking[i]);
      }
      if (possible && are_distinct(ranking)) {
        rankings.push_back(std::move(ranking));
      }
    }
    return rankings;
  }

  // One that names all ranks from 0 on, if all that do agree; else the first.
  Ranking best_of(const std::vector<Ranking>& rankings) const {
    const auto first = std::find_if(rankings.begin(), rankings.end(), are_all);
    if (first != rankings.end() && files_.size() > 1) {
      const bool agreed = std::all_of(first, rankings.end(), [&](const Ranking& other) {
        return !are_all(other) || other == *first;
      });
      return agreed ? *first : said_;
    }
    return rankings.empty() ? Ranking() : rankings.front();
  }

  bool is_world(const Ranking& ranking) const {
    int world = 1;
    for (const FlightFile* file : files_) {
      for (const FlightGroup& group : file->dump.groups) {
        for (const int rank : group.ranks) {
          world = std::max(world, rank + 1);
        }
      }
    }
    return !ranking.empty() && are_all(ranking) && ranking.size() == static_cast<size_t>(world);
  }

  // Files called in several ways.
  Ranking by_name_alone() const {
    Ranking ranking = said_;
    for (size_t i = 0; i < files_.size(); ++i) {
      for (const int rank : ranks_in_name(files_[i]->dump.trace.source)) {
        if (!ranking[i] && fits(files_[i]->dump, rank)) {
          ranking[i] = rank;
        }
      }
    }
    return ranking;
  }

  const std::vector<FlightFile*>& files_;
  Ranking said_;  // by what is inside
};

void set_ranks(const std::vector<FlightFile*>& files, const Ranking& ranking) {
  for (size_t i = 0; i < files.size(); ++i) {
    files[i]->dump.rank = ranking[i];
  }
}

// Of dumps with a group in common, at about the same time: one job, or several that were called
// apart where ranks occur twice.
std::vector<std::vector<FlightFile*>> placed(const std::vector<FlightFile*>& files) {
  if (const Ranking ranking = Placing(files).ranking(); !ranking.empty()) {
    set_ranks(files, ranking);
    return {files};
  }
  std::map<std::string, std::vector<FlightFile*>> by_name;
  for (FlightFile* file : files) {
    by_name[name_without_rank(file->dump.trace.source)].push_back(file);
  }
  std::vector<std::vector<FlightFile*>> jobs;
  for (const auto& [name, part] : by_name) {
    const Placing placing(part);
    const Ranking ranking = placing.ranking();
    set_ranks(part, ranking.empty() ? placing.undisputed() : ranking);
    jobs.push_back(part);
  }
  return jobs;
}

// The latest that it can have been made: when the watchdog would have found that an operation takes
// too long, its own or what others wait for it in.
TimeNs made_by(const FlightFile& file) {
  const FlightDump& dump = file.dump;
  TimeNs latest = dump.deadline;
  if (latest == 0 && __builtin_add_overflow(dump.last, dump.limit, &latest)) {
    latest = dump.last;
  }
  return std::max(dump.last, file.written == 0 ? latest : std::min(latest, file.written));
}

class Kinship {
 public:
  explicit Kinship(std::vector<FlightFile>& files) : files_(files), leader_(files.size()) {
    std::iota(leader_.begin(), leader_.end(), size_t{0});
    std::map<std::string, std::vector<size_t>> by_name;
    std::map<uint64_t, std::vector<size_t>> by_group;
    for (size_t i = 0; i < files.size(); ++i) {
      by_name[name_without_rank(files[i].dump.trace.source)].push_back(i);
      for (const FlightGroup& group : files[i].dump.groups) {
        by_group[group_id(group)].push_back(i);
      }
    }
    for (auto& [name, kin] : by_name) {
      join(kin);
    }
    for (auto& [group, kin] : by_group) {
      join(kin);
    }
  }

  std::vector<std::vector<FlightFile*>> families() {
    std::map<size_t, std::vector<FlightFile*>> by_leader;
    for (size_t i = 0; i < files_.size(); ++i) {
      by_leader[find(i)].push_back(&files_[i]);
    }
    std::vector<std::vector<FlightFile*>> all;
    all.reserve(by_leader.size());
    for (auto& [leader, family] : by_leader) {
      all.push_back(std::move(family));
    }
    return all;
  }

 private:
  size_t find(size_t i) {
    while (leader_[i] != i) {
      i = leader_[i] = leader_[leader_[i]];
    }
    return i;
  }

  // Those that were there at the same time; one in which nothing is recorded with the last.
  void join(std::vector<size_t>& kin) {
    std::stable_sort(kin.begin(), kin.end(), [&](size_t a, size_t b) {
      const TimeNs first_a = files_[a].dump.first;
      const TimeNs first_b = files_[b].dump.first;
      return std::pair(first_a == 0, first_a) < std::pair(first_b == 0, first_b);
    });
    TimeNs end = 0;
    for (size_t i = 0; i < kin.size(); ++i) {
      const FlightDump& dump = files_[kin[i]].dump;
      if (i > 0 && dump.first <= end && (dump.first != 0 || !is_joined_[kin[i]])) {
        leader_[find(kin[i])] = find(kin[i - 1]);
        is_joined_[kin[i]] = true;
      }
      end = std::max(end, made_by(files_[kin[i]]));
    }
  }

  std::vector<FlightFile>& files_;
  std::vector<size_t> leader_;
  std::map<size_t, bool> is_joined_;
};

void take_earlier(TimeNs time, TimeNs& start) {
  start = time == 0 || (start != 0 && start <= time) ? start : time;
}

TimeNs start_of(const std::vector<FlightFile>& job) {
  TimeNs start = 0;
  for (const FlightFile& file : job) {
    take_earlier(file.dump.first, start);
  }
  return start;
}

TimeNs start_of(const std::vector<FlightFile*>& family) {
  TimeNs start = 0;
  for (const FlightFile* file : family) {
    take_earlier(file->dump.first, start);
  }
  return start;
}

// Each of them is of another rank, and it is known of which.
bool are_of_other_ranks(std::vector<FlightFile*> a, const std::vector<FlightFile*>& b) {
  a.insert(a.end(), b.begin(), b.end());
  const Ranking ranking = Placing(a).ranking();
  return !ranking.empty() && std::all_of(ranking.begin(), ranking.end(),
                                         [](const std::optional<int>& rank) { return rank; });
}

// Clocks of hosts may be so far apart that dumps of one job are not there at the same time.
void join_across_clocks(std::vector<std::vector<FlightFile*>>& families) {
  std::stable_sort(families.begin(), families.end(),
                   [](const auto& a, const auto& b) { return start_of(a) < start_of(b); });
  std::vector<std::vector<FlightFile*>> joined;
  for (std::vector<FlightFile*>& family : families) {
    if (!joined.empty() && are_of_other_ranks(joined.back(), family) &&
        are_flight_clocks_apart(joined.back(), family)) {
      joined.back().insert(joined.back().end(), family.begin(), family.end());
      align_flight_clocks(joined.back());
    } else {
      joined.push_back(std::move(family));
    }
  }
  families = std::move(joined);
}

}  // namespace

uint64_t group_id(const FlightGroup& group) {
  uint64_t id = format::call_name_hash(group.name.c_str());
  for (const int rank : group.ranks) {
    id = format::mixed(id, static_cast<uint64_t>(rank));
  }
  return id == 0 ? 1 : id;
}

std::vector<std::vector<FlightFile>> flight_jobs(std::vector<FlightFile> files) {
  std::sort(files.begin(), files.end(), [](const FlightFile& a, const FlightFile& b) {
    return a.dump.trace.source < b.dump.trace.source;
  });
  std::vector<std::vector<FlightFile>> jobs;
  std::vector<std::vector<FlightFile*>> families = Kinship(files).families();
  for (const std::vector<FlightFile*>& family : families) {
    align_flight_clocks(family);
  }
  join_across_clocks(families);
  for (const std::vector<FlightFile*>& family : families) {
    for (const std::vector<FlightFile*>& job : placed(family)) {
      std::vector<FlightFile>& own = jobs.emplace_back();
      for (FlightFile* file : job) {
        own.push_back(std::move(*file));
      }
    }
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const auto& a, const auto& b) { return start_of(a) < start_of(b); });
  return jobs;
}

}  // namespace traintrace
