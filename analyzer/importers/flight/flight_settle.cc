#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/importers/flight/flight_messages.h"
#include "analyzer/importers/flight/flight_numbers.h"
#include "analyzer/importers/flight/flight_recorder.h"
#include "analyzer/model/elapsed.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

// What all dumps together know of a group.
struct GroupFacts {
  bool recorded = false;
  bool with_peers = false;
};

constexpr TimeNs kAtOnce = 60'000'000'000;  // after the first limit all write their dumps

class Settler {
 public:
  Settler(const std::vector<FlightFile>& files, uint64_t job) : numbers_(files), job_(job) {
    for (const FlightFile& file : files) {
      note_times(file);
      for (const FlightGroup& group : file.dump.groups) {
        GroupFacts& facts = groups_[group_id(group)];
        facts.recorded = facts.recorded || group.recorded;
        facts.with_peers = facts.with_peers || group.with_peers;
        for (const int rank : group.ranks) {
          world_ = std::max(world_, rank + 1);
        }
      }
    }
  }

  ProcessTrace settle(FlightFile& file) {
    FlightDump& dump = file.dump;
    ProcessTrace& trace = dump.trace;
    const int rank = dump.rank.value_or(0);
    trace.facts["env.RANK"] = std::to_string(rank);
    trace.facts["env.WORLD_SIZE"] = std::to_string(std::max(world_, rank + 1));
    // No process of that number is meant: dumps do not say which it was.
    trace.parent_pid = -1;
    trace.start_time = static_cast<uint64_t>(rank) + 2;
    trace.armed = first_;
    trace.last_alive = made(file);
    if (dump.active_only) {
      trace.facts["entries-left-out"] = "complete";
    } else if (!dump.begins) {
      trace.facts["entries-overwritten"] = "oldest";
    }
    std::vector<size_t> sizes;
    for (const FlightGroup& group : dump.groups) {
      sizes.push_back(group.ranks.size());
    }
    std::sort(sizes.begin(), sizes.end());
    trace.facts["group-sizes"] = fmt::format("{}", fmt::join(sizes, ","));
    settle_groups(dump, rank);
    return std::move(trace);
  }

 private:
  void note_times(const FlightFile& file) {
    const FlightDump& dump = file.dump;
    if (dump.first != 0) {
      first_ = first_ == 0 ? dump.first : std::min(first_, dump.first);
    }
    last_ = std::max(last_, dump.last);
    made_ = std::max(made_, dump.made);
    retired_ += dump.retired;
    apart_ += dump.apart;
    long_apart_ += dump.long_apart;
    const auto in_flight = dump.trace.facts.find("operations-in-flight");
    in_flight_ = in_flight_ || in_flight == dump.trace.facts.end() || in_flight->second != "0";
    if (dump.deadline != 0) {
      deadline_ = deadline_ == 0 ? dump.deadline : std::min(deadline_, dump.deadline);
    }
  }

  // Whether somebody else than the dump saw operations start: then none of them tells when it was
  // made.
  bool starts_were_seen_before() const {
    constexpr size_t kNoAccident = 2;  // whoever retires an entry may be interrupted while it looks
    return long_apart_ >= kNoAccident || 2 * apart_ > retired_;
  }

  // A file that was written when the first limit was exceeded is the one that the watchdog wrote,
  // whatever its entries were seen to do before.
  bool is_written_at_limit(const FlightFile& file) const {
    const TimeNs late = elapsed(deadline_, file.written);
    return file.written != 0 && deadline_ != 0 && late >= 0 && late <= kAtOnce;
  }

  // A dump does not say when it was made: usually when the watchdog found that the first operation
  // had exceeded its time limit.  Entries that only the dump itself saw complete tell it, and the
  // file's time, unless it was copied; what one dump tells is then taken for the others too, which
  // were made within seconds.
  TimeNs made(FlightFile& file) const {
    const FlightDump& dump = file.dump;
    std::string& evidence = file.dump.trace.facts["dump-time"];
    evidence = "entries";
    const TimeNs made_all = starts_were_seen_before() ? 0 : made_;
    if (dump.made != 0 && made_all != 0 && !is_written_at_limit(file)) {
      return std::max(dump.last, dump.made);
    }
    // Before 2.2 the limit is not in it; PyTorch's was half an hour, then ten minutes.
    constexpr TimeNs kUnknownLimit = 1'800'000'000'000;
    const bool copied = file.written == 0 ||
                        (deadline_ != 0 ? elapsed(deadline_, file.written)
                                        : elapsed(last_, file.written) - kUnknownLimit) > kAtOnce;
    evidence = !copied ? "file" : made_all != 0 ? "entries" : "assumed";
    return std::max(dump.last, !copied ? file.written : made_all != 0 ? made_all : assumed(dump));
  }

  // Where dumps do not say the limit, it is PyTorch's.
  TimeNs assumed(const FlightDump& dump) const {
    return deadline_ != 0 || !in_flight_ || last_ == 0 ? deadline_ : last_ + dump.limit;
  }

  // Groups are numbered alike in every job.
  uint64_t communicator_id(uint64_t group) const {
    return job_ == 0 ? group : std::max<uint64_t>(format::mixed(group, job_), 1);
  }

  void settle_groups(FlightDump& dump, int rank) const {
    std::vector<bool> keep(dump.groups.size(), true);
    for (size_t i = 0; i < dump.groups.size(); ++i) {
      const FlightGroup& group = dump.groups[i];
      CommunicatorText& text = dump.trace.communicators[i];
      const GroupFacts& facts = groups_.at(group_id(group));
      text.id = communicator_id(group_id(group));
      text.members = fmt::format("{}", fmt::join(group.ranks, ","));
      text.size = group.ranks.empty() ? -1 : static_cast<int>(group.ranks.size());
      const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank);
      text.rank =
          place == group.ranks.end() ? text.rank : static_cast<int>(place - group.ranks.begin());
      text.created = text.ready = first_;
      text.ordinal = static_cast<uint32_t>(std::clamp<int64_t>(group.number, -1, INT32_MAX) + 1);
      keep[i] = settle_counts(group, facts, text);
      finish_counted(text);
      numbers_.renumber(group, text);
      if (dump.active_only) {
        forget_parts(text, dump.single_messages[i]);
      }
    }
    note_begun(dump, keep);
    note_exchanges(dump, keep);
    drop(dump, keep);
  }

  // On which of the communicators that are kept the GPU has begun what is not complete.  Messages
  // have numbers of their own, which do not compare with those of collectives, nor with each other.
  void note_begun(FlightDump& dump, const std::vector<bool>& keep) const {
    size_t place = 0;
    bool timed = false;
    std::vector<size_t> places;
    for (size_t i = 0; i < dump.groups.size(); ++i) {
      const FlightGroup& group = dump.groups[i];
      const bool begun = group.started && *group.started > group.completed.value_or(0);
      place += keep[i] ? 1 : 0;
      timed = timed || group.started;
      if ((group.started && groups_.at(group_id(group)).with_peers) || (begun && !keep[i])) {
        return;
      }
      if (begun) {
        places.push_back(place);
      }
    }
    if (timed) {
      dump.trace.facts["begun-on"] =
          places.empty() ? "none" : fmt::format("{}", fmt::join(places, ","));
    }
  }

  // By the place of the communicator among those that are kept, from 1, and the operation's index.
  static void note_exchanges(FlightDump& dump, const std::vector<bool>& keep) {
    std::vector<std::string> all;
    size_t place = 0;
    for (size_t i = 0; i < dump.groups.size(); ++i) {
      place += keep[i] ? 1 : 0;
      for (const FlightExchange& one : dump.groups[i].exchanges) {
        if (keep[i]) {
          all.push_back(fmt::format("{}:{}:{}:{}", place, one.index, one.sent, one.received));
        }
      }
    }
    if (!all.empty()) {
      dump.trace.facts["exchanged"] = fmt::format("{}", fmt::join(all, ","));
    }
  }

  // A part of what was issued together stays as it was; that it is complete is counted.
  static void finish_counted(CommunicatorText& text) {
    for (OperationText& operation : text.recent) {
      if (operation.collective && operation.sequence != 0 && operation.sequence <= text.finished) {
        operation.flags |= format::kFinished;
        operation.gpu = GpuState::kUnknown;
      }
    }
  }

  // What was issued together gets done with the entry that closes it; its parts stay as they were.
  // Where that entry is complete and left out, they say nothing.
  static void forget_parts(CommunicatorText& text, const std::set<size_t>& single) {
    for (size_t i = 0; i < text.recent.size(); ++i) {
      OperationText& operation = text.recent[i];
      if (!operation.collective && operation.group == 0 && operation.peer >= 0 &&
          !single.contains(i)) {
        operation.gpu = GpuState::kUnknown;
        operation.flags |= format::kUntracked;
      }
    }
    std::erase_if(text.recent, [](const OperationText& operation) {
      return operation.collective && (operation.flags & format::kGrouped) != 0 &&
             operation.group == 0;
    });
  }

  // False: how many collectives there were cannot be told.
  static bool settle_counts(const FlightGroup& group, const GroupFacts& facts,
                            CommunicatorText& text) {
    if (!facts.with_peers && facts.recorded && group.enqueued) {
      text.collectives = std::max(text.collectives, *group.enqueued);
      text.finished = std::min(group.completed.value_or(0), text.collectives);
    }
    return group.recorded || (!facts.with_peers && facts.recorded && group.enqueued);
  }

  static void drop(FlightDump& dump, const std::vector<bool>& keep) {
    std::vector<CommunicatorText> kept;
    std::vector<uint32_t> places(keep.size());  // index + 1, as peers have it; 0: dropped
    for (size_t i = 0; i < keep.size(); ++i) {
      if (keep[i]) {
        kept.push_back(std::move(dump.trace.communicators[i]));
        places[i] = static_cast<uint32_t>(kept.size());
      }
    }
    dump.trace.communicators = std::move(kept);
    for (PeerText& peer : dump.trace.peers) {
      peer.communicator = places[peer.communicator - 1];
    }
    std::erase_if(dump.trace.peers, [](const PeerText& peer) { return peer.communicator == 0; });
  }

  const FlightNumbers numbers_;
  uint64_t job_ = 0;
  std::map<uint64_t, GroupFacts> groups_;
  TimeNs first_ = 0;
  TimeNs last_ = 0;
  TimeNs made_ = 0;
  TimeNs deadline_ = 0;
  bool in_flight_ = false;
  size_t retired_ = 0, apart_ = 0, long_apart_ = 0;
  int world_ = 0;
};

struct JobMembers {
  std::set<uint64_t> groups;
  std::set<int> ranks;
};

JobMembers members_of(const std::vector<FlightFile>& files) {
  JobMembers members;
  for (const FlightFile& file : files) {
    for (const FlightGroup& group : file.dump.groups) {
      members.groups.insert(group_id(group));
    }
    members.ranks.insert(file.dump.rank.value_or(-1));
  }
  members.ranks.erase(-1);
  return members;
}

// Dumps of ranks that a job lacks, of the same groups, which are of another time: that those left
// none is no proof.
void note_dumps_of_other_times(std::vector<std::vector<FlightFile>>& jobs) {
  std::map<uint64_t, std::set<int>> ranks;  // by group
  std::vector<JobMembers> members;
  for (const std::vector<FlightFile>& job : jobs) {
    members.push_back(members_of(job));
    for (const uint64_t group : members.back().groups) {
      ranks[group].insert(members.back().ranks.begin(), members.back().ranks.end());
    }
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    std::set<int> others;
    for (const uint64_t group : members[i].groups) {
      others.insert(ranks[group].begin(), ranks[group].end());
    }
    std::erase_if(others, [&](int rank) { return members[i].ranks.contains(rank); });
    for (FlightFile& file : jobs[i]) {
      if (!others.empty()) {
        file.dump.trace.facts["dumps-of-another-time"] = fmt::format("{}", fmt::join(others, ","));
      }
    }
  }
}

void settle_job(std::vector<FlightFile>& files, uint64_t number, FlightSet& set) {
  Settler settler(files, number);
  const bool whole = std::all_of(files.begin(), files.end(),
                                 [](const FlightFile& file) { return file.dump.whole; });
  for (FlightFile& file : files) {
    if (!file.dump.rank) {
      set.unplaced.push_back({file.dump.trace.source, 0,
                              "expected the rank in the file's name, other than that of each other "
                              "dump, or groups that tell it",
                              true, false});
      continue;
    }
    set.processes.push_back(settler.settle(file));
    if (!whole) {
      FlightMessages::forget(set.processes.back());
    }
  }
}

}  // namespace

FlightSet settle_flight_dumps(std::vector<FlightFile> files) {
  FlightSet set;
  uint64_t number = 0;
  std::vector<std::vector<FlightFile>> jobs = flight_jobs(std::move(files));
  note_dumps_of_other_times(jobs);
  for (std::vector<FlightFile>& job : jobs) {
    settle_job(job, number++, set);
  }
  return set;
}

}  // namespace traintrace
