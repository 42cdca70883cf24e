#include "analyzer/model/runs/grouping.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analyzer/memory/allocator/shortage.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/process/launch_facts.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct Cluster {
  std::vector<size_t> processes;
  std::set<std::string> keys;
  std::set<std::pair<uint64_t, int>> seats;  // (communicator, rank in it)
  std::set<int> ranks;                       // as launched
  TimeNs start = 0;
  TimeNs end = 0;
};

Cluster cluster_of(const ProcessTrace& trace, size_t index) {
  Cluster cluster;
  cluster.processes = {index};
  if (const std::string key = launch_key(trace); !key.empty()) {
    cluster.keys.insert(key);
  }
  for (const CommunicatorText& communicator : trace.communicators) {
    if (communicator.rank >= 0) {
      cluster.seats.emplace(communicator.id, communicator.rank);
    }
  }
  if (const auto rank = launched_rank(trace)) {
    cluster.ranks.insert(*rank);
  }
  cluster.start = trace.armed;
  cluster.end = last_sign_of_life(trace);
  return cluster;
}

void absorb(Cluster& into, Cluster& from) {
  into.processes.insert(into.processes.end(), from.processes.begin(), from.processes.end());
  into.keys.merge(from.keys);
  into.seats.merge(from.seats);
  into.ranks.merge(from.ranks);
  into.start = std::min(into.start, from.start);
  into.end = std::max(into.end, from.end);
  from.processes.clear();
}

template <class Set>
bool disjoint(const Set& a, const Set& b) {
  const Set& smaller = a.size() < b.size() ? a : b;
  const Set& larger = a.size() < b.size() ? b : a;
  return std::none_of(smaller.begin(), smaller.end(),
                      [&](const auto& element) { return larger.contains(element); });
}

bool overlap(const Cluster& a, const Cluster& b) {
  return elapsed(a.end, b.start) <= kOverlapSlack && elapsed(b.end, a.start) <= kOverlapSlack;
}

// By host and pid, those before an exec first.
using ByPid = std::map<std::pair<std::string, int>, std::vector<size_t>>;

// Which of two processes with one environment is the rank: the one that has communicators, else the
// older one.  Both, if both have.
void follow(std::span<const ProcessTrace> traces, size_t older, size_t younger,
            std::vector<size_t>& leaders) {
  if (traces[younger].communicators.empty()) {
    leaders[younger] = older;
  } else if (traces[older].communicators.empty()) {
    leaders[older] = younger;
  }
}

bool are_at_one_time(const ProcessTrace& a, const ProcessTrace& b) {
  return elapsed(last_sign_of_life(a), b.armed) <= kOverlapSlack &&
         elapsed(last_sign_of_life(b), a.armed) <= kOverlapSlack;
}

bool have_one_rank(const ProcessTrace& a, const ProcessTrace& b) {
  return launched_rank(a) && launched_rank(a) == launched_rank(b);
}

std::string_view command_line(const ProcessTrace& trace) {
  const auto line = trace.facts.find("command-line");
  return line == trace.facts.end() ? std::string_view() : line->second;
}

// How Python's multiprocessing starts a process: in a child, or in that of a server.
bool is_of_multiprocessing(const ProcessTrace& trace) {
  return command_line(trace).find("from multiprocessing.") != std::string_view::npos;
}
bool is_of_forkserver(const ProcessTrace& trace) {
  return command_line(trace).find("from multiprocessing.forkserver") != std::string_view::npos;
}

// What failed is told of by itself: no worker's failure, and no trainer's that one process of a
// driver began, is lost behind the process that it would follow.
// Not by being stopped, alone or with the whole job.
bool has_failed(const ProcessTrace& trace) {
  const bool crashed = trace.wait_status >= 0 && WIFSIGNALED(trace.wait_status) &&
                       WTERMSIG(trace.wait_status) != SIGKILL &&
                       !is_stop_signal(WTERMSIG(trace.wait_status));
  const bool gave_up = trace.exit_status != 0 && !is_stop_signal(trace.exit_status - 128);
  return crashed || gave_up || fatal_failure(trace) != nullptr;
}

// What was started without a rank of its own: by a process that has communicators, whoever said its
// rank; and without a launcher that said one, what multiprocessing starts, or a fork.  Other
// programs are jobs of their own.  Lightning's first rank starts the others, each with a local rank
// of its own.
bool is_worker_of(const ProcessTrace& parent, const ProcessTrace& child) {
  const std::string_view local = environment(child, "LOCAL_RANK");
  const bool has_place =
      local == environment(parent, "LOCAL_RANK") || (launched_rank(parent) && local.empty());
  return !launched_rank(child) && child.communicators.empty() && !has_failed(child) && has_place &&
         (!parent.communicators.empty() ||
          (!launched_rank(parent) &&
           (is_of_multiprocessing(child) ||
            (!command_line(child).empty() && command_line(child) == command_line(parent)))));
}

// Of the processes with the pid of its parent the one that was there with it, the latest if there
// are several.  A child may well be recorded before its parent.  SIZE_MAX: there is none.
size_t parent_of(std::span<const ProcessTrace> traces, const ByPid& by_pid, size_t child) {
  const ProcessTrace& trace = traces[child];
  const auto found = by_pid.find({trace.host, trace.parent_pid});
  size_t parent = SIZE_MAX;
  for (size_t i = 0; found != by_pid.end() && i < found->second.size(); ++i) {
    const ProcessTrace& candidate = traces[found->second[i]];
    const bool was_there = trace.start_time == 0 || candidate.start_time <= trace.start_time;
    if (candidate.boot == trace.boot && was_there &&
        (have_one_rank(candidate, trace) || is_worker_of(candidate, trace)) &&
        are_at_one_time(candidate, trace)) {
      parent = found->second[i];
    }
  }
  return parent == child ? SIZE_MAX : parent;
}

bool names_its_launch(const ProcessTrace& trace) {
  constexpr const char* kNames[] = {"MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID",
                                    "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* name) { return !environment(trace, name).empty(); });
}

// Descendants of a rank by way of processes that are not recorded, as a loader's workers that a
// forkserver starts: they have all that the launcher said of the rank, began after it, and have no
// communicators, as it has.
void follow_from_afar(std::span<const ProcessTrace> traces, const std::vector<size_t>& order,
                      std::vector<size_t>& leaders) {
  std::map<std::tuple<std::string, std::string, int>, std::vector<size_t>> ranks;
  const auto place = [&](const ProcessTrace& trace) {
    return std::tuple(trace.host, launch_key(trace), launched_rank(trace).value_or(-1));
  };
  for (const size_t i : order) {
    if (!traces[i].communicators.empty() && launched_rank(traces[i]) &&
        names_its_launch(traces[i])) {
      ranks[place(traces[i])].push_back(i);
    }
  }
  for (const size_t i : order) {
    const ProcessTrace& trace = traces[i];
    const auto found =
        leaders[i] == i && trace.communicators.empty() ? ranks.find(place(trace)) : ranks.end();
    for (size_t j = 0; found != ranks.end() && j < found->second.size(); ++j) {
      const ProcessTrace& rank = traces[found->second[j]];
      if (rank.boot == trace.boot && rank.start_time < trace.start_time &&
          are_at_one_time(rank, trace)) {
        leaders[i] = found->second[j];
      }
    }
  }
}

// Workers that a forkserver started, which is not recorded, where no launcher said a rank: they
// follow a process of the same host and folder, one with communicators if there is one.
void follow_by_forkserver(std::span<const ProcessTrace> traces, const std::vector<size_t>& order,
                          std::vector<size_t>& leaders) {
  const auto folder = [](const ProcessTrace& trace) {
    const auto fact = trace.facts.find("cwd");
    return fact == trace.facts.end() ? std::string_view() : std::string_view(fact->second);
  };
  for (const size_t i : order) {
    const ProcessTrace& worker = traces[i];
    if (leaders[i] != i || !worker.communicators.empty() || launched_rank(worker) ||
        !is_of_forkserver(worker) || has_failed(worker)) {
      continue;
    }
    for (const size_t j : order) {
      const ProcessTrace& rank = traces[j];
      const bool may_lead = !rank.communicators.empty() || !is_of_multiprocessing(rank);
      const bool is_better = leaders[i] == i || (traces[leaders[i]].communicators.empty() &&
                                                 !rank.communicators.empty());
      if (j != i && may_lead && is_better && !launched_rank(rank) && rank.host == worker.host &&
          rank.boot == worker.boot && folder(rank) == folder(worker) &&
          rank.start_time < worker.start_time && are_at_one_time(rank, worker)) {
        leaders[i] = j;
      }
    }
  }
}

// Processes that only inherited their rank: children of a rank that use CUDA too, and what a rank
// was before it called exec.  For each process the one it follows, or itself; also where a damaged
// trace has two follow each other.
std::vector<size_t> find_leaders(std::span<const ProcessTrace> traces,
                                 const std::vector<size_t>& order) {
  std::vector<size_t> leaders(traces.size());
  std::iota(leaders.begin(), leaders.end(), size_t{0});
  ByPid by_pid;
  for (const size_t i : order) {
    by_pid[{traces[i].host, traces[i].pid}].push_back(i);
  }
  for (const auto& [pid, all] : by_pid) {
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t parent = parent_of(traces, by_pid, all[i]);
      if (i > 0 && traces[all[i - 1]].start_time == traces[all[i]].start_time) {
        follow(traces, all[i - 1], all[i], leaders);
      } else if (parent != SIZE_MAX) {
        follow(traces, parent, all[i], leaders);
      }
    }
  }
  follow_from_afar(traces, order, leaders);
  follow_by_forkserver(traces, order, leaders);
  for (const size_t i : order) {
    for (size_t steps = 0; leaders[leaders[i]] != leaders[i]; ++steps) {
      leaders[i] = steps < traces.size() ? leaders[leaders[i]] : i;
    }
  }
  return leaders;
}

// Ranks of one launch, each with a number of its own: whatever they claim to be of a communicator.
bool are_side_by_side(const Cluster& part, const Cluster& own) {
  return !own.ranks.empty() && disjoint(part.ranks, own.ranks) && !disjoint(part.keys, own.keys) &&
         overlap(part, own);
}

// Where NCCL_COMM_ID gives the communicators of all runs the same ids, two processes sit in the
// same place of one: then they belong to runs one after the other.
std::vector<Cluster> split_by_seats(std::span<const ProcessTrace> traces, const Cluster& whole) {
  std::vector<Cluster> parts;
  for (const size_t i : whole.processes) {
    Cluster own = cluster_of(traces[i], i);
    const auto home = std::find_if(parts.rbegin(), parts.rend(), [&](const Cluster& part) {
      return disjoint(part.seats, own.seats) || are_side_by_side(part, own);
    });
    if (home == parts.rend()) {
      parts.push_back(std::move(own));
    } else {
      absorb(*home, own);
    }
  }
  return parts;
}

// Processes with a communicator in common, directly or by way of others.
std::vector<Cluster> cluster_by_communicator(std::span<const ProcessTrace> traces,
                                             const std::vector<size_t>& order) {
  std::vector<size_t> leader(traces.size());
  std::iota(leader.begin(), leader.end(), size_t{0});
  const auto find = [&](size_t i) {
    while (leader[i] != i) {
      i = leader[i] = leader[leader[i]];
    }
    return i;
  };
  std::map<uint64_t, size_t> first_with;
  for (const size_t i : order) {
    for (const CommunicatorText& communicator : traces[i].communicators) {
      leader[find(i)] = find(first_with.emplace(communicator.id, i).first->second);
    }
  }
  std::map<size_t, Cluster> whole;  // by leader
  std::map<size_t, size_t> seats;   // as many as the members brought
  for (const size_t i : order) {
    Cluster own = cluster_of(traces[i], i);
    seats[find(i)] += own.seats.size();
    const auto [at, is_new] = whole.try_emplace(find(i), own);
    if (!is_new) {
      absorb(at->second, own);
    }
  }
  std::vector<Cluster> clusters;
  for (auto& [first, cluster] : whole) {
    if (cluster.seats.size() == seats[first]) {
      clusters.push_back(std::move(cluster));
      continue;
    }
    std::vector<Cluster> parts = split_by_seats(traces, cluster);
    std::move(parts.begin(), parts.end(), std::back_inserter(clusters));
  }
  return clusters;
}

// What launchers say joins only what ran at one time and does not claim the same ranks.
std::vector<Cluster> join_by_launch(std::vector<Cluster> clusters) {
  std::sort(clusters.begin(), clusters.end(), [](const Cluster& a, const Cluster& b) {
    return std::tie(a.start, a.processes) < std::tie(b.start, b.processes);
  });
  std::vector<Cluster> joined;
  for (Cluster& cluster : clusters) {
    const auto home = std::find_if(joined.rbegin(), joined.rend(), [&](const Cluster& other) {
      return !disjoint(other.keys, cluster.keys) && disjoint(other.ranks, cluster.ranks) &&
             disjoint(other.seats, cluster.seats) && overlap(other, cluster);
    });
    if (home == joined.rend()) {
      joined.push_back(std::move(cluster));
    } else {
      absorb(*home, cluster);
    }
  }
  return joined;
}

}  // namespace

std::vector<RunGroup> group_runs(std::span<const ProcessTrace> traces) {
  std::vector<size_t> order(traces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(traces[a].armed, traces[a].host, traces[a].pid, traces[a].start_time) <
           std::tie(traces[b].armed, traces[b].host, traces[b].pid, traces[b].start_time);
  });
  const std::vector<size_t> leaders = find_leaders(traces, order);
  std::vector<size_t> independent;
  std::copy_if(order.begin(), order.end(), std::back_inserter(independent),
               [&](size_t i) { return leaders[i] == i; });
  std::vector<RunGroup> groups;
  for (Cluster& cluster : join_by_launch(cluster_by_communicator(traces, independent))) {
    groups.push_back({std::move(cluster.processes), {}, cluster.start, cluster.end});
  }
  for (const size_t i : order) {
    for (RunGroup& group : groups) {
      if (leaders[i] != i && std::count(group.ranks.begin(), group.ranks.end(), leaders[i]) > 0) {
        group.followers.push_back(i);
      }
    }
  }
  return groups;
}

}  // namespace traintrace
