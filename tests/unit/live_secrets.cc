// uses: analyzer
// What `attach` takes from the /proc of a process that nobody recorded: no secrets.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/live/proc_files.h"
#include "analyzer/live/targets.h"

namespace traintrace {
namespace {

// A shell that waits for the end of its input, with these arguments and this environment.
class Waiting {
 public:
  Waiting() {
    if (pipe(input_) != 0) {
      return;
    }
    pid_ = fork();
    if (pid_ == 0) {
      dup2(input_[0], STDIN_FILENO);
      close(input_[1]);
      const char* const environment[] = {"RANK=3",         "HF_TOKEN=geheim-0815",
                                         "NCCL_ALGO=ring", "NVIDIA_API_KEY=geheim-0815",
                                         "MASTER_ADDR=h",  nullptr};
      const std::string cut = std::string(4020, 'a') + " geheim-0815 " + std::string(100, 'a');
      execle("/bin/sh", "sh", "-c", "read line", "train.py", "--api-key", "geheim-0815", "--lr=3",
             cut.c_str(), nullptr, environment);
      _exit(127);
    }
    close(input_[0]);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    close(input_[1]);
    waitpid(pid_, nullptr, 0);
  }
  // As soon as it is the shell.
  ProcProcess read() const {
    for (;; usleep(1000)) {
      const Result<ProcProcess> process = read_process(pid_);
      if (!process || process->command_line.find("train.py") != std::string::npos) {
        return process ? *process : ProcProcess();
      }
    }
  }

 private:
  int input_[2] = {-1, -1};
  pid_t pid_ = -1;
};

TEST(LiveSecrets, AreNotRead) {
  const Waiting shell;
  const ProcessTrace trace = unrecorded_trace(shell.read(), TimeNs{});
  EXPECT_EQ(trace.facts.at("env.RANK"), "3");
  EXPECT_EQ(trace.facts.at("env.NCCL_ALGO"), "ring");
  EXPECT_EQ(trace.facts.at("env.MASTER_ADDR"), "h");
  EXPECT_EQ(trace.facts.at("env.NVIDIA_API_KEY"), "(set)");
  EXPECT_EQ(trace.facts.count("env.HF_TOKEN"), 0u);
  EXPECT_EQ(trace.facts.at("command-line"), "sh -c read line train.py --api-key *** --lr=3 ");
  for (const auto& [key, value] : trace.facts) {
    EXPECT_EQ(value.find("geheim"), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace traintrace
