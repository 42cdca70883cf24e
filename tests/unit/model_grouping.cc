// uses: analyzer
// Which processes are one run, and which rank each of them is.
#include "analyzer/model/runs/grouping.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "analyzer/model/runs/grown_communicators.h"
#include "analyzer/model/runs/rank_assignment.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;

ProcessTrace process(int pid, TimeNs armed, TimeNs alive) {
  ProcessTrace trace;
  trace.host = "a";
  trace.pid = pid;
  trace.start_time = static_cast<uint64_t>(pid);
  trace.armed = armed;
  trace.last_alive = alive;
  return trace;
}

ProcessTrace& with_rank(ProcessTrace& trace, const char* variable, const char* rank) {
  trace.facts[std::string("env.") + variable] = rank;
  return trace;
}

void add_communicator(ProcessTrace& trace, uint64_t id, int rank, int size, int device = -1) {
  CommunicatorText& communicator = trace.communicators.emplace_back();
  communicator.id = id;
  communicator.rank = rank;
  communicator.size = size;
  communicator.device = device;
  communicator.flags = format::kInitDone;
}

TEST(Grouping, OneCommunicatorIsOneRun) {
  std::vector<ProcessTrace> traces = {process(1, kSecond, 9 * kSecond),
                                      process(2, 100 * kSecond, 200 * kSecond)};
  add_communicator(traces[0], 7, 0, 2);
  add_communicator(traces[1], 7, 1, 2);
  ASSERT_EQ(group_runs(traces).size(), 1);
  traces[1].communicators[0].id = 8;
  EXPECT_EQ(group_runs(traces).size(), 2);
}

CommunicatorText& grow(ProcessTrace& trace, uint64_t id, uint64_t parent, uint64_t hash) {
  add_communicator(trace, id, trace.pid, 4);
  CommunicatorText& grown = trace.communicators.back();
  grown.origin = format::kGrow;
  grown.parent = parent;
  grown.nccl_hash = hash;
  grown.created = kSecond;
  return grown;
}

void split_of(ProcessTrace& trace, uint64_t parent) {
  const uint64_t id = format::nccl_child_hash(parent, 1, 3);
  add_communicator(trace, id, trace.pid, -1);
  CommunicatorText& child = trace.communicators.back();
  child.origin = format::kSplit;
  child.parent = parent;
  child.ordinal = 1;
  child.color = 3;
  child.created = 2 * kSecond;
}

TEST(Grouping, RanksThatJoinAreOfTheRunThatTookThemIn) {
  constexpr uint64_t kGrown = 0xa, kHash = 0xb;
  std::vector<ProcessTrace> traces;
  for (int pid = 1; pid <= 3; ++pid) {
    traces.push_back(process(pid, kSecond, 9 * kSecond));
  }
  grow(traces[0], kGrown, 0x1, kHash);
  split_of(traces[0], kGrown);
  grow(traces[1], kGrown, 0x1, 0);
  split_of(traces[1], kGrown);
  grow(traces[2], kHash, 0, kHash);
  split_of(traces[2], kHash);
  EXPECT_EQ(group_runs(traces).size(), 2);
  unite_grown_communicators(traces);
  EXPECT_EQ(group_runs(traces).size(), 1);
  for (const ProcessTrace& trace : traces) {
    EXPECT_EQ(trace.communicators[0].id, kGrown);
    EXPECT_EQ(trace.communicators[1].id, format::nccl_child_hash(kGrown, 1, 3));
    EXPECT_EQ(trace.communicators[1].parent, kGrown);
  }
}

// Another growth, or one of whose rank with the unique id there is no trace.
TEST(Grouping, RanksThatJoinedSomethingElseStayApart) {
  std::vector<ProcessTrace> traces = {process(1, kSecond, 9 * kSecond),
                                      process(2, kSecond, 9 * kSecond)};
  grow(traces[0], 0xa, 0x1, 0xb);
  grow(traces[1], 0xc, 0, 0xc);
  unite_grown_communicators(traces);
  EXPECT_EQ(traces[1].communicators[0].id, 0xc);
  EXPECT_EQ(group_runs(traces).size(), 2);
  traces[0].communicators[0].nccl_hash = 0;
  traces[1].communicators[0].nccl_hash = 0;
  unite_grown_communicators(traces);
  EXPECT_EQ(traces[1].communicators[0].id, 0xc);
}

// NCCL_COMM_ID gives the communicators of every run the same id.
TEST(Grouping, TheSameSeatTwiceIsTwoRuns) {
  std::vector<ProcessTrace> traces;
  for (int run = 0; run < 3; ++run) {
    for (int rank = 0; rank < 2; ++rank) {
      traces.push_back(
          process(10 * run + rank, (run * 20 + 1) * kSecond, (run * 20 + 9) * kSecond));
      add_communicator(traces.back(), 7, rank, 2);
    }
  }
  std::swap(traces[0], traces[5]);
  const std::vector<RunGroup> groups = group_runs(traces);
  ASSERT_EQ(groups.size(), 3);
  for (const RunGroup& group : groups) {
    ASSERT_EQ(group.ranks.size(), 2);
    EXPECT_EQ(traces[group.ranks[0]].pid / 10, traces[group.ranks[1]].pid / 10);
  }
}

TEST(Grouping, OneLaunchIsOneRunIfItsTimesOverlap) {
  std::vector<ProcessTrace> traces = {process(1, kSecond, 9 * kSecond),
                                      process(2, 2 * kSecond, 9 * kSecond),
                                      process(3, 60 * kSecond, 90 * kSecond)};
  with_rank(traces[0], "RANK", "0").facts["env.MASTER_PORT"] = "29500";
  with_rank(traces[1], "RANK", "1").facts["env.MASTER_PORT"] = "29500";
  with_rank(traces[2], "RANK", "2").facts["env.MASTER_PORT"] = "29500";
  EXPECT_EQ(group_runs(traces).size(), 2);
  traces[2].armed = 3 * kSecond;
  EXPECT_EQ(group_runs(traces).size(), 1);
  with_rank(traces[2], "RANK", "1");
  EXPECT_EQ(group_runs(traces).size(), 2);
}

// A launcher that asked for nothing but a device, and the rank that it started with its own rank.
TEST(Grouping, AChildWithCommunicatorsLeads) {
  std::vector<ProcessTrace> traces = {process(1, kSecond, 9 * kSecond),
                                      process(2, 2 * kSecond, 9 * kSecond)};
  with_rank(traces[0], "RANK", "0");
  with_rank(traces[1], "RANK", "0");
  traces[1].parent_pid = 1;
  add_communicator(traces[1], 7, 0, 1);
  const std::vector<RunGroup> groups = group_runs(traces);
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(groups[0].ranks, std::vector<size_t>{1});
  EXPECT_EQ(groups[0].followers, std::vector<size_t>{0});
}

ProcessTrace of_rank(int pid, int parent, const char* rank, int armed_s) {
  ProcessTrace trace = process(pid, armed_s * kSecond, 20 * kSecond);
  trace.parent_pid = parent;
  with_rank(trace, "RANK", rank).facts["env.MASTER_PORT"] = "29500";
  return trace;
}

// Ranks 0 and 1, and a worker of rank 0, which is recorded before it.
std::vector<ProcessTrace> with_a_worker(int worker_parent) {
  std::vector<ProcessTrace> traces = {of_rank(10, 1, "0", 5), of_rank(11, 1, "1", 5),
                                      of_rank(20, worker_parent, "0", 4)};
  add_communicator(traces[0], 7, 0, 2);
  add_communicator(traces[1], 7, 1, 2);
  return traces;
}

TEST(Grouping, AWorkerThatIsRecordedFirstIsNoRank) {
  const std::vector<ProcessTrace> traces = with_a_worker(10);
  const std::vector<RunGroup> groups = group_runs(traces);
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(groups[0].ranks.size(), 2);
  EXPECT_EQ(groups[0].followers, std::vector<size_t>{2});
}

TEST(Grouping, AWorkerOfAForkserverIsNoRank) {
  std::vector<ProcessTrace> traces = with_a_worker(15);  // which is not recorded
  EXPECT_EQ(group_runs(traces).size(), 1);
  traces[2].armed = 10 * kSecond;
  EXPECT_EQ(group_runs(traces).size(), 1);
}

// Nothing but the number of its rank in common.
TEST(Grouping, AnotherJobIsNoWorker) {
  const auto runs_if = [](const auto& change) {
    std::vector<ProcessTrace> traces = with_a_worker(15);
    change(traces[2]);
    return group_runs(traces).size();
  };
  EXPECT_EQ(runs_if([](ProcessTrace& trace) { trace.facts["env.MASTER_PORT"] = "29501"; }), 2);
  EXPECT_EQ(runs_if([](ProcessTrace& trace) { trace.host = "b"; }), 2);
  EXPECT_EQ(runs_if([](ProcessTrace& trace) { trace.armed = 100 * kSecond; }), 2);
  EXPECT_EQ(runs_if([](ProcessTrace& trace) { trace.start_time = 5; }), 2) << "it was there before";
  EXPECT_EQ(
      runs_if([](ProcessTrace& trace) { trace.facts["env.TORCHELASTIC_RESTART_COUNT"] = "1"; }), 2);
  EXPECT_EQ(runs_if([](ProcessTrace& trace) { add_communicator(trace, 9, 0, 2); }), 2);
}

// Two workers start each other's like: all follow their rank, and none itself.
TEST(Grouping, ChainsOfWorkersFollowTheirRank) {
  std::vector<ProcessTrace> traces = with_a_worker(10);
  traces.push_back(of_rank(30, 20, "0", 3));
  traces.push_back(of_rank(40, 30, "0", 2));
  const std::vector<RunGroup> groups = group_runs(traces);
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(groups[0].followers, (std::vector<size_t>{4, 3, 2}));
}

// As torch.multiprocessing.spawn starts ranks 0 and 1: no launcher says who they are.  A third
// process, which has no communicators.
std::vector<ProcessTrace> spawned(int parent, const std::string& command_line) {
  std::vector<ProcessTrace> traces = {process(10, 5 * kSecond, 20 * kSecond),
                                      process(11, 5 * kSecond, 20 * kSecond),
                                      process(20, 6 * kSecond, 20 * kSecond)};
  add_communicator(traces[0], 7, 0, 2);
  add_communicator(traces[1], 7, 1, 2);
  traces[2].parent_pid = parent;
  for (ProcessTrace& trace : traces) {
    trace.facts["cwd"] = "/job";
  }
  traces[2].facts["command-line"] = command_line;
  return traces;
}
const std::string kForkserver = "python3 -c from multiprocessing.forkserver import main; main(..)";
const std::string kSpawn = "python3 -c from multiprocessing.spawn import spawn_main; ..";

TEST(Grouping, AChildOfARankThatNobodyLaunchedIsNoRun) {
  const std::vector<RunGroup> groups = group_runs(spawned(11, "program"));
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(groups[0].followers, std::vector<size_t>{2});
  EXPECT_EQ(group_runs(spawned(3, "program")).size(), 2) << "somebody else's child";
}

// The launcher said the rank of its parent, which started it without one.
TEST(Grouping, AChildWithoutARankOfALaunchedOneIsNoRun) {
  const auto runs_of = [](int parent, const char* local_rank, int wait_status) {
    std::vector<ProcessTrace> traces = spawned(parent, "other-program");
    for (int rank : {0, 1}) {
      with_rank(with_rank(traces[static_cast<size_t>(rank)], "RANK", rank == 0 ? "0" : "1"),
                "LOCAL_RANK", rank == 0 ? "0" : "1");
    }
    if (*local_rank != 0) {
      with_rank(traces[2], "LOCAL_RANK", local_rank);
    }
    traces[2].wait_status = wait_status;
    return group_runs(traces).size();
  };
  EXPECT_EQ(runs_of(11, "", -1), 1);
  EXPECT_EQ(runs_of(11, "", SIGKILL), 1) << "as its parent ends it";
  EXPECT_EQ(runs_of(11, "1", -1), 1);
  EXPECT_EQ(runs_of(11, "2", -1), 2) << "a rank of its own";
  EXPECT_EQ(runs_of(11, "", SIGSEGV), 2) << "what failed is told of by itself";
  EXPECT_EQ(runs_of(3, "", -1), 2) << "somebody else's child";
}

// Which has not come to its first communicator yet.
TEST(Grouping, ARankThatItsFirstRankStartedIsNoWorker) {
  std::vector<ProcessTrace> traces = spawned(10, "python3 train.py");
  traces[2].facts["env.LOCAL_RANK"] = "1";
  EXPECT_EQ(group_runs(traces).size(), 2);
  traces[0].facts["env.LOCAL_RANK"] = "1";
  EXPECT_EQ(group_runs(traces).size(), 1);
}

TEST(Grouping, AWorkerOfAForkserverThatNobodyLaunchedIsNoRun) {
  EXPECT_EQ(group_runs(spawned(15, kForkserver)).size(), 1);
  EXPECT_EQ(group_runs(spawned(15, kSpawn)).size(), 2);
  std::vector<ProcessTrace> traces = spawned(15, kForkserver);
  traces[2].facts["cwd"] = "/another";
  EXPECT_EQ(group_runs(traces).size(), 2);
  traces = spawned(15, kForkserver);
  add_communicator(traces[2], 9, 0, 1);
  EXPECT_EQ(group_runs(traces).size(), 2) << "a job of its own";
}

TEST(Grouping, WhatFailedIsToldOfByItself) {
  for (const auto& [parent, command_line] : {std::pair(10, kSpawn), std::pair(15, kForkserver)}) {
    std::vector<ProcessTrace> traces = spawned(parent, command_line);
    EXPECT_EQ(group_runs(traces).size(), 1);
    traces[2].exit_status = 1;
    EXPECT_EQ(group_runs(traces).size(), 2);
    traces[2].exit_status = 128 + SIGTERM;
    EXPECT_EQ(group_runs(traces).size(), 1) << "stopped";
    traces[2].exit_status = 0;
    traces[2].wait_status = SIGSEGV;
    EXPECT_EQ(group_runs(traces).size(), 2);
    for (const int signal : {SIGTERM, SIGKILL}) {
      traces[2].wait_status = signal;
      EXPECT_EQ(group_runs(traces).size(), 1) << "stopped with the whole job";
    }
  }
}

// One GPU, without NCCL.
TEST(Grouping, WhatMultiprocessingStartsIsNoRun) {
  const auto runs_of = [](const std::string& command_line) {
    std::vector<ProcessTrace> traces = spawned(10, command_line);
    traces.erase(traces.begin() + 1);
    traces[0].communicators.clear();
    traces[0].facts["command-line"] = "python3 train.py";
    return group_runs(traces).size();
  };
  EXPECT_EQ(runs_of(kSpawn), 1);
  EXPECT_EQ(runs_of(kForkserver), 1);
  EXPECT_EQ(runs_of("python3 train.py"), 1) << "a fork";
  EXPECT_EQ(runs_of("python3 another.py"), 2) << "a program that starts jobs";
}

TEST(Grouping, ParentsOfEachOtherAreReadToo) {
  std::vector<ProcessTrace> traces = {of_rank(10, 20, "0", 5), of_rank(20, 10, "0", 5),
                                      of_rank(30, 10, "0", 4)};
  traces[0].start_time = traces[1].start_time = 0;
  EXPECT_GE(group_runs(traces).size(), 1);
}

TEST(Ranks, LaunchersAreBelievedWhereTheyTellProcessesApart) {
  std::vector<ProcessTrace> traces = {process(1, 0, 0), process(2, 0, 0)};
  add_communicator(traces[0], 7, 0, 2);
  add_communicator(traces[1], 7, 1, 2);
  with_rank(traces[0], "OMPI_COMM_WORLD_RANK", "5").facts["env.OMPI_COMM_WORLD_SIZE"] = "8";
  with_rank(traces[1], "OMPI_COMM_WORLD_RANK", "4");
  const RankAssignment assignment = assign_ranks(traces);
  ASSERT_EQ(assignment.seats.size(), 2);
  EXPECT_EQ(assignment.seats[0].rank, Rank{4});
  EXPECT_EQ(assignment.seats[0].process, 1);
  EXPECT_EQ(assignment.seats[1].rank, Rank{5});
  EXPECT_EQ(assignment.world_size, 8);
}

// srun started one task, which started all ranks: SLURM says 0 to each.
TEST(Ranks, ElseTheLargestCommunicatorCounts) {
  std::vector<ProcessTrace> traces = {process(1, 0, 0), process(2, 0, 0), process(3, 0, 0)};
  for (int i = 0; i < 3; ++i) {
    with_rank(traces[static_cast<size_t>(i)], "SLURM_PROCID", "0");
    add_communicator(traces[static_cast<size_t>(i)], 9, 2 - i, 3);
  }
  add_communicator(traces[0], 8, 0, 2);
  add_communicator(traces[1], 8, 1, 2);
  const RankAssignment assignment = assign_ranks(traces);
  ASSERT_EQ(assignment.seats.size(), 3);
  EXPECT_EQ(assignment.seats[0].process, 2);
  EXPECT_EQ(assignment.seats[2].process, 0);
  EXPECT_EQ(assignment.world_size, 3);
}

TEST(Ranks, SplitsOfSeveralRanksInOneProcessFollowTheirParents) {
  std::vector<ProcessTrace> traces = {process(1, 0, 0)};
  for (int rank = 0; rank < 4; ++rank) {
    add_communicator(traces[0], 7, rank, 4, rank);
  }
  for (const int parent : {1, 3, 0, 2}) {
    add_communicator(traces[0], parent % 2 == 0 ? 20 : 21, -1, -1, -1);
    traces[0].communicators.back().parent = 7;
    traces[0].communicators.back().parent_index = static_cast<uint32_t>(parent) + 1;
    traces[0].communicators.back().origin = format::kSplit;
  }
  const RankAssignment assignment = assign_ranks(traces);
  ASSERT_EQ(assignment.seats.size(), 4);
  const std::vector<size_t> of_rank_3 = {3, 5};
  EXPECT_EQ(assignment.seats[3].communicators, of_rank_3);
  EXPECT_EQ(assignment.seats[3].rank, Rank{3});
}

TEST(Ranks, NonsenseIsNoRank) {
  std::vector<ProcessTrace> traces = {process(1, 0, 0), process(2, 0, 0)};
  with_rank(traces[0], "RANK", "99999999999");
  with_rank(traces[1], "RANK", "-4");
  const RankAssignment assignment = assign_ranks(traces);
  EXPECT_EQ(assignment.seats[0].rank, Rank{0});
  EXPECT_EQ(assignment.seats[1].rank, Rank{1});
}

}  // namespace
}  // namespace traintrace
