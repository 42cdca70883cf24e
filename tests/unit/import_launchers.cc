// uses: analyzer
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/detectors/support.h"
#include "analyzer/importers/logs/job/endings.h"
#include "analyzer/importers/logs/job/launcher_log.h"
#include "analyzer/importers/logs/testimony.h"

namespace traintrace {
namespace {

LauncherLog log_of(const std::string& text) {
  EXPECT_TRUE(looks_like_launcher_log(text)) << text;
  return read_launcher_log(text, "job.log");
}

std::string first_of(const std::string& text) {
  const LauncherLog log = log_of(text);
  return log.testimony.conclusions.empty() ? "" : log.testimony.conclusions.front();
}

TEST(LauncherLog, WhatEachLauncherSays) {
  constexpr struct {
    const char* text;
    const char* conclusion;
  } kLogs[] = {
      {"srun: error: gpu3: task 9: Out Of Memory\n",
       "Slurm task 9 on gpu3 was killed because the host's memory ran out"},
      {"srun: error: gpu3: tasks 8-9,11: Exited with exit code 1\n",
       "Slurm tasks 8-9,11 on gpu3 ended with exit code 1"},
      {"srun: error: gpu3: tasks 0-3: Segmentation fault (core dumped)\n",
       "Slurm tasks 0-3 on gpu3 were ended by SIGSEGV"},
      {"srun: error: Node failure on gpu3\n", "gpu3 failed, says Slurm"},
      {"slurmstepd: error: Detected 2 oom-kill event(s) in StepId=77.batch cgroup. Some of\n",
       "Slurm's step 77.batch ran out of host memory: the kernel killed 2 of its processes"},
      {"slurmstepd: error: *** JOB 77 ON gpu3 CANCELLED AT 2025-01-02T03:04:05 DUE TO TIME LIMIT "
       "***\n",
       "Slurm's job 77 on gpu3 was ended at its time limit"},
      {"slurmstepd: error: *** STEP 77.0 ON gpu3 CANCELLED AT 2025-01-02T03:04:05 DUE TO "
       "PREEMPTION ***\n",
       "Slurm's step 77.0 on gpu3 was preempted by another job"},
      {"slurmstepd: error: *** STEP 77.0 ON gpu3 CANCELLED AT 2025-01-02T03:04:05 ***\n",
       "Slurm's step 77.0 on gpu3 was cancelled"},
      {"mpirun noticed that process rank 3 with PID 11 on node gpu3 exited on signal 9 (Killed).\n",
       "rank 3 on gpu3 was the first that mpirun saw fail: ended by SIGKILL"},
      {"mpiexec noticed that process rank 0 with PID 11 on node gpu3 exited on \nsignal 6 "
       "(Aborted).\n",
       "rank 0 on gpu3 was the first that mpirun saw fail: ended by SIGABRT"},
      {"the job to be terminated. The first process to do so was:\n\n  Process name: "
       "[[6341,1],2]\n  Exit code:    7\n",
       "rank 2 was the first that mpirun saw fail: exit code 7"},
      {"MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
       "rank 1 called MPI_Abort"},
      {"=   RANK 6 PID 24 RUNNING AT gpu3\n=   KILLED BY SIGNAL: 9 (Killed)\n"
       "=   RANK 7 PID 25 RUNNING AT gpu3\n=   KILLED BY SIGNAL: 9 (Killed)\n",
       "ranks 6,7 on gpu3 were ended by SIGKILL"},
      {"[rank: 1] Child process with PID 11 terminated with code -11. Forcefully terminating all\n",
       "local rank 1 (pid 11) was the first that Lightning saw fail: ended by SIGSEGV"},
      {"failed (exitcode: -9) local_rank: 3 (pid: 11) of binary: /usr/bin/python3\n",
       "local rank 3 (pid 11) was the first that torchrun saw fail: ended by SIGKILL"},
      {"torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal "
       "SIGBUS\n",
       "local rank 1 was ended by SIGBUS"},
      {"RuntimeError: DataLoader worker (pid 11) is killed by signal: Bus error. It is possible\n",
       "a worker of PyTorch's data loader (pid 11) was ended by SIGBUS"},
      {"Memory on the node (IP: 10.0.0.3, ID: a1) where the task (actor ID: f9, name=W.run, "
       "pid=11, memory used=22.1GB) was running was 59.4GB / 62.5GB (0.95), which\n",
       "process 11 on 10.0.0.3 was killed because the host's memory ran out (59.4GB of 62.5GB in "
       "use)"},
      {"Worker IP address: 10.0.0.3 Worker port: 1 Worker PID: 11 Worker exit type: "
       "SYSTEM_ERROR Worker exit detail: x\n",
       "process 11 on 10.0.0.3 ended, and Ray does not know why: killed for memory, `ray stop`, "
       "or a crash"},
      {"Name:   trainer-3\nContainers:\n  main:\n    State:   Terminated\n      Reason:   "
       "OOMKilled\n      Exit Code:  137\n",
       "pod trainer-3 was killed because the container's memory ran out"},
      {"Name:   trainer-3\n    Last State:   Terminated\n      Reason:   Error\n      Exit Code:  "
       "137\n",
       "pod trainer-3 ended with exit code 137: SIGKILL"},
      {"NAME       READY  STATUS\ntrainer-3   0/1     OOMKilled   0          3h\n",
       "pod trainer-3 was killed because the container's memory ran out"},
      {"        \"reason\": \"OOMKilled\",\n",
       "a container was killed because the container's memory ran out"},
      {"Nov 26 05:10:00 gpu3 kernel: Memory cgroup out of memory: Killed process 11 (python3) "
       "total-vm:4kB\n",
       "python3 (pid 11) on gpu3 was killed because the host's memory ran out"},
      {"/var/spool/slurm_script: line 28:  8156 Killed                  python3 main.py\n",
       "process 8156 was ended by SIGKILL"},
  };
  for (const auto& log : kLogs) {
    EXPECT_EQ(first_of(log.text), log.conclusion) << log.text;
  }
}

// The command line in that message is of the process that was started last, whichever failed.
TEST(LauncherLog, DeepSpeedNamesNoRank) {
  const LauncherLog log = log_of(
      "node2: [2025-03-20 20:31:29,269] [ERROR] [launch.py:321:sigkill_handler] "
      "['/opt/python', '-u', 'train.py', '--local_rank=1'] exits with return code = -9\n");
  EXPECT_EQ(log.testimony.conclusions.at(0),
            "a process of DeepSpeed's launcher was ended by SIGKILL");
  EXPECT_FALSE(log.testimony.witnesses.at(0).rank);
}

// What a launcher ends itself, after one process has failed, is not what failed.
TEST(LauncherLog, WhatTheLauncherEndedItselfIsNoCause) {
  const LauncherLog log = log_of(
      "slurmstepd: error: Detected 1 oom_kill event in StepId=88.0. Some of the step tasks\n"
      "srun: error: gpu4: task 9: Out Of Memory\n"
      "srun: Terminating StepId=88.0\n"
      "slurmstepd: error: *** STEP 88.0 ON gpu3 CANCELLED AT 2025-11-12T09:14:02 ***\n"
      "srun: error: gpu3: tasks 0-7: Killed\n");
  EXPECT_EQ(log.testimony.conclusions,
            (std::vector<std::string>{
                "Slurm task 9 on gpu4 was killed because the host's memory ran out",
                "Slurm's step 88.0 ran out of host memory: the kernel killed 1 of its processes"}));
  EXPECT_TRUE(log.tells_outer_cause);
  EXPECT_EQ(log.testimony.advice.size(), 1U);
  ASSERT_EQ(log.testimony.witnesses.size(), 3U);
  EXPECT_EQ(log.testimony.witnesses[2].says,
            "ended by SIGKILL, after the launcher had asked the job to end (says srun)");
  // A task that ends so before anybody asked for it is one that failed.
  EXPECT_EQ(first_of("srun: error: gpu4: task 9: Killed\nsrun: Terminating job step 88.0\n"
                     "srun: error: gpu3: tasks 0-7: Terminated\n"),
            "Slurm task 9 on gpu4 was ended by SIGKILL");
}

// A rank that aborts itself has waited for others: it stands after one that crashed.
TEST(LauncherLog, AnAbortComesAfterACrash) {
  EXPECT_EQ(first_of("srun: error: gpu3: tasks 0-7: Aborted (core dumped)\n"
                     "srun: error: gpu4: task 9: Segmentation fault\n"),
            "Slurm task 9 on gpu4 was ended by SIGSEGV");
}

TEST(LauncherLog, LinesOfOthersAreNone) {
  for (const char* text :
       {"", "killed 3 processes\n", "srun: job 77 queued and waiting for resources\n",
        "srun: error: Unable to allocate resources: Invalid account\n",
        "task 9: Killed it on the first try\n", "process exited with code 0\n",
        "State:   Running\n      Reason:   Error in the log\n", "exits with return code = 0\n",
        "srun: Terminating StepId=88.0\n", "trainer-3  1/1  Running  0  3h\n"}) {
    EXPECT_FALSE(looks_like_launcher_log(text)) << text;
  }
}

// What is cut anywhere is no crash, and tells no more than the whole.
TEST(LauncherLog, CutAnywhere) {
  const std::string whole =
      "Name: a\n Reason: OOMKilled\n Exit Code: 137\nsrun: error: gpu3: tasks 8-9: Killed\n"
      "mpirun noticed that process rank 99999999999999 with PID 1 on node b exited on signal 9\n"
      "=   RANK 6 PID 24 RUNNING AT gpu3\n=   KILLED BY SIGNAL: 9 (Killed)\n";
  for (size_t size = 0; size <= whole.size(); ++size) {
    EXPECT_LE(read_launcher_log(whole.substr(0, size), "x").testimony.witnesses.size(), 5U);
  }
}

TEST(LauncherLog, AloneItClaimsNoRanks) {
  const std::vector<Testimony> all = {
      log_of("srun: error: gpu4: task 9: Out Of Memory\n").testimony};
  EXPECT_TRUE(processes_of(all).empty());
  const Finding finding = supported_finding(all);
  EXPECT_EQ(finding.title,
            "Slurm task 9 on gpu4 was killed because the host's memory ran out, says the job's "
            "log; there is no trace of this job that says more");
  EXPECT_EQ(finding.code, "run.rank-failed");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.certainty, Certainty::kPossible);
  EXPECT_TRUE(finding.culprits.empty());
  const std::vector<Testimony> stopped = {
      log_of("*** JOB 77 ON gpu3 CANCELLED AT 2025-01-02T03:04:05 DUE TO TIME LIMIT ***\n")
          .testimony};
  EXPECT_EQ(supported_finding(stopped).severity, Severity::kWarning);  // it may have been meant
  EXPECT_NE(finding.advice.find("--mem"), std::string::npos);
  EXPECT_EQ(finding.advice.find("attach"), std::string::npos);  // there is nothing left to look at
}

// Logs are packed once a job has ended.
TEST(LauncherLog, PackedByGzip) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("launchers." + std::to_string(getpid()) + ".log.gz");
  std::string text(100'000, '.');  // what comes before is no small head
  text += "\nsrun: error: gpu4: task 9: Out Of Memory\n";
  const gzFile zipped = gzopen(path.c_str(), "wb");
  gzwrite(zipped, text.data(), static_cast<unsigned>(text.size()));
  gzclose(zipped);
  EXPECT_TRUE(may_testify(path.string()));
  std::vector<ReadError> errors;
  const std::vector<std::string> paths = {path.string()};
  const std::vector<Testimony> all = read_testimonies(paths, errors);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].conclusions.size(), 1U);
  // Cut: an error, and no words made of what is left.
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_FALSE(may_testify(path.string()));
  std::filesystem::remove(path);
}

TEST(Endings, WhatShellsAndContainersSay) {
  EXPECT_EQ(ending_text(137), "exit code 137: SIGKILL");
  EXPECT_EQ(ending_text(1), "exit code 1");
  EXPECT_EQ(ending_text(128), "exit code 128");
  EXPECT_EQ(ending_text(-9), "ended by SIGKILL");
  EXPECT_EQ(ending_text(-64), "ended by signal 64");
  EXPECT_EQ(signal_of_word("Segmentation fault"), 11);
  EXPECT_EQ(signal_of_word("nothing"), 0);
}

}  // namespace
}  // namespace traintrace
