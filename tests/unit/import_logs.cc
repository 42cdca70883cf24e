// uses: analyzer
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "analyzer/importers/logs/job/watchdog_log.h"
#include "analyzer/importers/logs/testimony.h"

namespace traintrace {
namespace {

constexpr char kLog[] =
    "starting\n"
    "node7:4000:5000 [0] NCCL INFO ncclCommInitRank comm 0x550 rank 0 nranks 3 cudaDev 0 busId 1 "
    "commId 0x5a13 - Init COMPLETE\n"
    "(worker pid=1) node7:4000:5000 [0] NCCL INFO AllReduce: opCount a sendbuff 0x1 recvbuff 0x2 "
    "count 64 datatype 7 op 0 root 0 comm 0x550 [nranks=3] stream 0x7\n"
    "[default0]:node7:4000:5000 [0] NCCL INFO Broadcast: opCount b sendbuff 0x1 recvbuff 0x2 "
    "count 65 datatype 7 op 0 root 0 comm 0x550 [nranks=3] stream 0x7 task 0 globalrank 0\r\n"
    "node7:4001:5001 [1] NCCL WARN NET/IB : got completion with error 12\n"
    "node7:4001:5001 [1] NCCL WARN and so on\n";

TEST(NcclLog, OperationsByCommunicatorAndTheFirstWarning) {
  EXPECT_TRUE(looks_like_nccl_log(kLog));
  const Result<Testimony> log = read_nccl_log(kLog, "log");
  ASSERT_TRUE(log) << log.error().message;
  ASSERT_EQ(log->witnesses.size(), 2U);
  EXPECT_EQ(log->witnesses[0].pid, 4001);
  EXPECT_EQ(log->witnesses[0].says,
            "its proxy thread failed with ncclRemoteError, after it had warned: NET/IB : got "
            "completion with error 12");
  const Witness& side = log->witnesses[1];
  EXPECT_EQ(side.host, "node7");
  EXPECT_EQ(side.communicator, 0x5a13U);
  EXPECT_EQ(side.handle, 0x550U);
  EXPECT_EQ(side.local_rank, 0);
  EXPECT_EQ(side.says,
            "1 AllReduce, 1 Broadcast logged, the last Broadcast of 65 elements as opCount b");
}

TEST(NcclLog, OtherLinesAreNone) {
  for (const char* text :
       {"", "\n", " NCCL INFO ", "NCCL INFO comm 0x5 rank 0 nranks 2", "a:b:c [0] NCCL INFO x",
        ":-1:2 [0] NCCL INFO x", "h:-1:2 [0] NCCL INFO x", "h:1 [0] NCCL INFO x"}) {
    EXPECT_FALSE(looks_like_nccl_log(text)) << text;
    EXPECT_FALSE(read_nccl_log(text, "log")) << text;
  }
}

// As NCCL 2.18, 2.21 in a container that hides its host, 2.27 and 2.29 write them.
TEST(NcclLog, WarningsAsEachVersionWritesThem) {
  struct Case {
    const char* line;
    const char* host;
    int pid;
    const char* says;
  };
  for (const Case& version : std::initializer_list<Case>{
           {"node7:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : no such device", "node7", 3468,
            "warned first: NET/IB : no such device"},
           {"2025-08-12 09:37:03.4 worker-9 >> [2025-08-12 01:37:03] :166:1226 [0] "
            "misc/socket.cc:484 NCCL WARN socketFinalizeAccept: wrong magic",
            "", 166, "warned first: socketFinalizeAccept: wrong magic (2025-08-12 01:37:03 there)"},
           {"[rank3]: [2026-01-02 03:04:05] node7:5:6 [0] transport/net_ib/p2p.cc:7 (ncclIbTest) "
            "NCCL WARN NET/IB: it failed",
            "node7", 5, "warned first: NET/IB: it failed (2026-01-02 03:04:05 there)"},
           {"node7:5:6 [-1] a.cc:7 (int f(int, char *)) NCCL WARN x", "node7", 5,
            "warned first: x"},
       }) {
    EXPECT_TRUE(looks_like_nccl_log(version.line)) << version.line;
    const Result<Testimony> log = read_nccl_log(version.line, "log");
    ASSERT_TRUE(log) << version.line;
    ASSERT_EQ(log->witnesses.size(), 1U) << version.line;
    EXPECT_EQ(log->witnesses[0].host, version.host);
    EXPECT_EQ(log->witnesses[0].pid, version.pid);
    EXPECT_EQ(log->witnesses[0].says, version.says);
    EXPECT_FALSE(log->witnesses[0].proxy_failure);
  }
}

constexpr char kProxyLog[] = R"(b:21:31 [0] NCCL INFO Bootstrap : Using eth0:10.0.35.2<0>
d:22:32 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.35.4<0>
b:21:39 [0] misc/socket.cc:50 NCCL WARN socketProgress: something else

b:21:38 [0] ib_plugin.c:1105 NCCL WARN NET/IB : Got completion from peer 10.0.35.4<49189> with status=12 opcode=0 len=0 vendor err 129 (Recv)
b:21:38 [0] NCCL INFO transport/net.cc:1137 -> 6
b:21:38 [0] NCCL INFO proxy.cc:698 -> 6
b:21:38 [0] NCCL INFO proxy.cc:878 -> 6 [Progress Thread]
b:21:37 [0] NCCL INFO [Service thread] Connection closed by localRank 0
)";

TEST(NcclLog, TheProxyThreadsFailureAndItsPeer) {
  const Result<Testimony> log = read_nccl_log(kProxyLog, "log");
  ASSERT_TRUE(log) << log.error().message;
  ASSERT_EQ(log->witnesses.size(), 2U);
  EXPECT_EQ(log->witnesses[0].says, "warned first: socketProgress: something else");
  const Witness& witness = log->witnesses[1];
  EXPECT_EQ(witness.host, "b");
  EXPECT_EQ(witness.pid, 21);
  ASSERT_TRUE(witness.proxy_failure);
  EXPECT_EQ(witness.proxy_failure->result, 6);
  EXPECT_EQ(witness.proxy_failure->peer, "10.0.35.4");
  EXPECT_EQ(witness.proxy_failure->peer_host, "d");
  EXPECT_EQ(witness.proxy_failure->completion_status, 12);
  EXPECT_EQ(witness.says,
            "its proxy thread failed with ncclRemoteError, after it had warned: NET/IB : Got "
            "completion from peer 10.0.35.4<49189> with status=12 opcode=0 len=0 vendor err 129 "
            "(Recv)");
}

// NCCL_DEBUG=WARN, in the words of before 2.18.
TEST(NcclLog, ACompletionsStatusAloneIsTheProxyThreads) {
  const Result<Testimony> log = read_nccl_log(
      "b:21:38 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
      "fe80::966d:ae03%ib0<33397> with error 4, opcode 32611, len 32611, vendor err 81 (Send)\n",
      "log");
  ASSERT_TRUE(log);
  ASSERT_EQ(log->witnesses.size(), 1U);
  ASSERT_TRUE(log->witnesses[0].proxy_failure);
  EXPECT_EQ(log->witnesses[0].proxy_failure->result, 6);
  EXPECT_EQ(log->witnesses[0].proxy_failure->completion_status, 4);
  EXPECT_EQ(log->witnesses[0].proxy_failure->peer, "fe80::966d:ae03%ib0");
  EXPECT_EQ(log->witnesses[0].proxy_failure->peer_host, "");
}

TEST(NcclLog, OtherThreadsErrorsAreNotTheProxys) {
  for (const char* text :
       {"b:21:38 [0] NCCL INFO proxy.cc:878 -> 6\n",
        "b:21:38 [0] NCCL INFO proxy.cc:878 -> 0 [Progress Thread]\n",
        "b:21:38 [0] NCCL INFO proxy.cc:878 -> x [Progress Thread]\n",
        "b:21:38 [0] NCCL INFO [Service thread] Connection closed by localRank 0\n"}) {
    EXPECT_FALSE(read_nccl_log(text, "log")) << text;
  }
}

TEST(NcclLog, AnAddressThatIsUsedAgainBeginsAnew) {
  const std::string again = std::string(kLog) +
                            "node7:4000:5000 [0] NCCL INFO comm 0x550 rank 0 nranks 3 - Destroy "
                            "COMPLETE\n"
                            "node7:4000:5000 [0] NCCL INFO ncclCommInitRank comm 0x550 rank 2 "
                            "nranks 4 cudaDev 0 commId 0x77 - Init COMPLETE\n";
  const Result<Testimony> log = read_nccl_log(again, "log");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->witnesses[1].communicator, 0x77U);
  EXPECT_EQ(log->witnesses[1].says, "no operation logged");
}

// One rank's line about one collective; as NCCL 2.7 to 2.29 and RCCL write it.
std::string called(int rank, const std::string& function, int operation, int count,
                   const std::string& rest = "") {
  return fmt::format(
      "h:{}:{} [{}] NCCL INFO {}: opCount {:x} sendbuff 0x7f5d recvbuff 0x7f5d count {} datatype 7 "
      "op 0 root 0 comm 0x55{} [nranks=3] stream 0x7{}\n",
      4000 + rank, 4100 + rank, rank, function, operation, count, rank, rest);
}

// Three ranks that have called `same` collectives alike.
std::string alike(int same, const std::string& hash) {
  std::string log;
  for (int rank = 0; rank < 3; ++rank) {
    log += fmt::format(
        "h:{}:{} [{}] NCCL INFO comm 0x55{} rank {} nranks 3 cudaDev {} busId 1000{} - Init "
        "COMPLETE\n",
        4000 + rank, 4100 + rank, rank, rank, rank, rank, hash.empty() ? "" : " commId " + hash);
  }
  for (int operation = 0; operation < same; ++operation) {
    for (int rank = 0; rank < 3; ++rank) {
      log += called(rank, "AllReduce", operation, 64 + operation);
    }
  }
  return log;
}

std::vector<std::string> nccl_concluded(const std::string& log) {
  const Result<Testimony> read = read_nccl_log(log, "log");
  return read ? read->conclusions : std::vector<std::string>{read.error().message};
}

// The shape of a hang that rccl issue 429 tells of.
TEST(NcclLog, TheFirstCollectiveThatIsNotTheSame) {
  const std::string text =
      "as operation c on the communicator of 3 ranks rank 2 called AllGather of 5 elements "
      "(datatype 7, op 0, root 0), ranks 0,1 called AllReduce of 6 elements (datatype 7, op 0, "
      "root 0)";
  for (const char* hash : {"", "0x5a13"}) {
    const std::string log = alike(12, hash) + called(0, "AllReduce", 12, 6) +
                            called(2, "AllGather", 12, 5, " task 0 globalrank 2") +
                            called(2, "AllReduce", 13, 6) + called(1, "AllReduce", 12, 6);
    EXPECT_EQ(nccl_concluded(log), std::vector<std::string>{text}) << hash;
  }
  EXPECT_EQ(nccl_concluded(alike(0, "0x5") + called(0, "AllReduce", 0, 6) +
                           called(1, "AllReduce", 0, 7) + called(2, "AllReduce", 0, 6))
                .size(),
            1U);
}

// NCCL 2.27 and later call each operation 0 where all ranks are on one host (nccl issue 2021).
TEST(NcclLog, WhereNothingIsNumberedTheOrderCounts) {
  std::string log = alike(0, "0x5a13");
  for (int i = 0; i < 4; ++i) {
    for (int rank = 0; rank < 3; ++rank) {
      log += called(rank, "AllReduce", 0, 64 + i);
    }
  }
  const std::string other =
      called(0, "AllReduce", 0, 6) + called(2, "AllGather", 0, 5) + called(1, "AllReduce", 0, 6);
  EXPECT_EQ(nccl_concluded(log + other),
            std::vector<std::string>{
                "as collective number 5 on the communicator of 3 ranks rank 2 called AllGather of "
                "5 elements (datatype 7, op 0, root 0), ranks 0,1 called AllReduce of 6 elements "
                "(datatype 7, op 0, root 0)"});
  EXPECT_TRUE(nccl_concluded(log + called(0, "AllReduce", 0, 6)).empty());
  // A torn line may be one that is missing.
  const std::string torn = called(1, "AllReduce", 0, 7);
  EXPECT_TRUE(nccl_concluded(log + torn.substr(0, 60) + other).empty());
  EXPECT_TRUE(nccl_concluded(log + torn.substr(0, torn.find(" datatype")) + "\n" + other).empty());
}

TEST(NcclLog, WhatCannotBeComparedIsNot) {
  const std::string same = alike(12, "0x5a13");
  const std::string other =
      called(0, "AllReduce", 12, 6) + called(1, "AllReduce", 12, 6) + called(2, "AllGather", 12, 5);
  ASSERT_EQ(nccl_concluded(same + other).size(), 1U);
  const std::string torn = called(1, "AllReduce", 12, 6);
  const std::string logs[] = {
      same,
      same + called(0, "AllReduce", 12, 6),                             // ahead
      same + called(1, "Send", 12, 6) + other,                          // counted apart
      same + called(0, "AllReduce", 12, 9) + other,                     // a group of two
      same + called(0, "AllReduce", 3, 9) + other,                      // begun anew
      alike(0, "0x5a13") + called(0, "AllReduce", 7, 6) +               // none the same before
          called(1, "AllReduce", 7, 6) + called(2, "AllGather", 7, 5),  //
      same + called(0, "AllReduce", 12, 6) + called(2, "AllReduce", 12, 6) +
          torn.substr(0, torn.find(" datatype")) + "\n",
      same + called(0, "AllReduce", 12, 66) + called(2, "AllReduce", 12, 66) +
          torn.substr(0, torn.find(" datatype")) + called(1, "AllReduce", 13, 6),
      // Of another communicator of the size, too, and which is which is not said.
      alike(12, "") + other +
          "h:4009:4109 [0] NCCL INFO comm 0x559 rank 0 nranks 3 cudaDev 0 - Init COMPLETE\n",
      alike(12, "") + other +
          "h:4009:4109 [0] NCCL INFO comm 0x559 rank 0 nranks 8 cudaDev 0 - Init COMPLETE\n",
  };
  for (const std::string& log : logs) {
    EXPECT_TRUE(nccl_concluded(log).empty()) << log << nccl_concluded(log)[0];
  }
}

// As PyTorch 2.4 to 2.10 write it, rank 2 did not come.
constexpr char kWatchdogs[] = R"(Epoch 9/10: 300it [07:24,  1.48s/it, loss=2.29]
[rank0]:[E709 17:05:38.162555850 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=20585, OpType=ALLREDUCE, NumelIn=1259621, NumelOut=1259621, Timeout(ms)=600000) ran for 600000 milliseconds before timing out.
[rank0]:[E709 17:05:38.162814866 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 20585 PG status: last enqueued work: 20589, last completed work: 20584
[1803] [rank1]:[E709 17:05:38.162555850 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=20585, OpType=ALLREDUCE, NumelIn=1259621, NumelOut=1259621, Timeout(ms)=600000) ran for 600310 milliseconds before timing out.
[1803] [rank1]:[E709 17:05:38.171814866 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 1] Exception (either an error or timeout) detected by watchdog at work: 20585, last enqueued NCCL work: 20589, last completed NCCL work: 20584.
[rank2]:[E709 17:05:38.182154063 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: 20584, last completed NCCL work: 20584.This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks
)";

TEST(WatchdogLog, HowFarEachRankHadCome) {
  ASSERT_TRUE(looks_like_watchdog_log(kWatchdogs));
  const Testimony log = read_watchdog_log(kWatchdogs, "job.log");
  ASSERT_EQ(log.witnesses.size(), 3U);
  EXPECT_EQ(log.source, "PyTorch's log");
  const std::string waits =
      "for work 20585 of process group 0(default_pg): ALLREDUCE, 1259621 elements in, 1259621 "
      "out; had enqueued up to 20589, completed up to 20584";
  EXPECT_EQ(log.witnesses[0].rank, 0);
  EXPECT_EQ(log.witnesses[0].says, "waited 600 s " + waits);
  EXPECT_EQ(log.witnesses[1].rank, 1);
  EXPECT_EQ(log.witnesses[1].says, "waited 600 s " + waits);
  EXPECT_EQ(log.witnesses[2].rank, 2);
  EXPECT_EQ(log.witnesses[2].says,
            "had enqueued up to work 20584 of process group 0(default_pg), completed up to 20584");
  EXPECT_EQ(log.conclusions, (std::vector<std::string>{
                                 "rank 2 had not enqueued work 20585 of process group "
                                 "0(default_pg) (ALLREDUCE), for which ranks 0,1 waited 600 s"}));
}

std::string standing(int rank, const std::string& type, int waits_for, int enqueued) {
  const std::string about =
      waits_for < 0
          ? ""
          : fmt::format(
                "[rank{}]: ProcessGroupNCCL.cpp:1 [Rank {}] Watchdog caught collective "
                "operation timeout: WorkNCCL(SeqNum={}, OpType={}, NumelIn=1, NumelOut=1, "
                "Timeout(ms)=600000) ran for 600000 milliseconds before timing out.\n",
                rank, rank, waits_for, type);
  return about + fmt::format(
                     "[rank{}]: ProcessGroupNCCL.cpp:1 [PG 1 Rank {}] detected by watchdog at "
                     "work: {}, last enqueued work: {}, last completed work: 3\n",
                     rank, rank, waits_for, enqueued);
}

std::vector<std::string> concluded(const std::string& log) {
  return read_watchdog_log(log, "job.log").conclusions;
}

TEST(WatchdogLog, WhoIsAbsentIsConcludedOfCollectivesOnly) {
  const std::string waits = standing(0, "ALLREDUCE", 5, 7) + standing(1, "ALLREDUCE", 5, 5);
  EXPECT_EQ(concluded(waits + standing(2, "", -1, 4)).size(), 1U);
  // It had come; it speaks of messages, of which each rank has its own count; nobody speaks of it.
  EXPECT_TRUE(concluded(waits + standing(2, "", -1, 5)).empty());
  EXPECT_TRUE(concluded(standing(0, "SEND", 5, 5) + standing(2, "", -1, 4)).empty());
  EXPECT_TRUE(concluded(standing(0, "COALESCED", 5, 5) + standing(2, "", -1, 4)).empty());
  EXPECT_TRUE(concluded(waits).empty());
  // Of two that timed out the first counts: who waits for it is not absent from the second.
  EXPECT_EQ(concluded(standing(0, "BROADCAST", 6, 6) + standing(1, "ALLREDUCE", 5, 5)),
            std::vector<std::string>());
}

TEST(WatchdogLog, GroupsAndRanksAsEachVersionNamesThem) {
  struct Case {
    const char* line;
    int rank;  // -1: nobody's
    const char* group;
  };
  for (
      const Case& one : std::initializer_list<Case>{
          {"[rank4]:[E1206 18:44:12.7 ProcessGroupNCCL.cpp:1664] [PG 1 Rank 2] Exception (either "
           "an "
           "error or timeout) detected by watchdog at work: 7753, last enqueued NCCL work: 7755, "
           "last completed NCCL work: 7752.",
           4, "1"},
          {"nodes.cn-d003.nolog [stderr] [rank3]:[E909 09:55:46.9 ProcessGroupNCCL.cpp:1709] [PG 0 "
           "(default_pg) Rank 3] Timeout at NCCL work: 2070, last enqueued NCCL work: 2082, last "
           "completed NCCL work: 2069.",
           3, "0 (default_pg)"},
          {"[E508 07:35:59.4 ProcessGroupNCCL.cpp:733] [PG ID 0 PG GUID 0(default_pg) Rank 6] "
           "failure detected by watchdog at work sequence id: 5 PG status: last enqueued work: 9, "
           "last started work: -1, last completed work: 4",
           6, "0(default_pg)"},
          // Rank 0 of one of several groups could be any.
          {"[E508 07:35:59.4 ProcessGroupNCCL.cpp:733] [PG ID 5 PG GUID "
           "22(TENSOR_MODEL_PARALLEL_GROUP) "
           "Rank 0] last enqueued work: 9, last completed work: 4",
           -1, ""},
          {"[rank3]: ProcessGroupNCCL.cpp:1 [PG 0 Rank 3] last enqueued work: many, last completed "
           "work: 4",
           -1, ""},
          {"[rank3]: ProcessGroupNCCL.cpp:1 [PG 0 Rank 3 last enqueued work: 1, last completed "
           "work: 4",
           -1, ""},
      }) {
    const Testimony log = read_watchdog_log(one.line, "job.log");
    ASSERT_EQ(log.witnesses.size(), one.rank < 0 ? 0U : 1U) << one.line;
    if (one.rank >= 0) {
      EXPECT_EQ(log.witnesses[0].rank, one.rank);
      EXPECT_NE(log.witnesses[0].says.find(fmt::format("of process group {},", one.group)),
                std::string::npos)
          << log.witnesses[0].says;
    }
  }
}

// An operation that timed out is of the line after it: of another rank, or of other work, it is
// not.
TEST(WatchdogLog, WorkOfOthersIsNotMixedUp) {
  const std::string log =
      "[rank0]: ProcessGroupNCCL.cpp:1 [Rank 0] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=5, OpType=SEND, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600000 "
      "milliseconds before timing out.\n"
      "[rank1]: ProcessGroupNCCL.cpp:1 [PG 0 Rank 1] detected by watchdog at work: 5, last "
      "enqueued "
      "work: 5, last completed work: 4\n"
      "[rank0]: ProcessGroupNCCL.cpp:1 [PG 0 Rank 0] detected by watchdog at work: 6, last "
      "enqueued "
      "work: 6, last completed work: 5\n";
  for (const Witness& witness : read_watchdog_log(log, "job.log").witnesses) {
    EXPECT_EQ(witness.says.find("SEND"), std::string::npos) << witness.says;
  }
}

}  // namespace
}  // namespace traintrace
