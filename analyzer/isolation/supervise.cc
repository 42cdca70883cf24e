#include "analyzer/isolation/supervise.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "analyzer/isolation/board.h"
#include "analyzer/isolation/silence.h"

namespace traintrace {

Board* board = nullptr;
std::vector<InternalError> deadly_stages;

namespace {

constexpr int kUnusable = 2;
constexpr size_t kMostDeadly = 24;  // then all of it is given up

bool after_a_crash = false;
std::vector<std::function<Inputs()>> input_questions;

bool is_crash(int signal) {
  constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGKILL};
  return std::find(std::begin(kCrashes), std::end(kCrashes), signal) != std::end(kCrashes);
}

std::string name_of(int signal) {
  const char* const name = sigabbrev_np(signal);
  const std::string text = name == nullptr ? std::to_string(signal) : std::string("SIG") + name;
  return signal == SIGKILL ? text + ", perhaps for want of memory" : text;
}

int run_all(const std::string& name, const std::function<int()>& work,
            const std::function<int()>& otherwise) {
  int status = kUnusable;
  return run_stage(name, [&] { status = work(); }) ? status : otherwise();
}

[[noreturn]] void end_child(int status) {
  std::fflush(nullptr);
#ifdef __SANITIZE_ADDRESS__
  std::exit(status);  // looks for leaks
#else
  _exit(status);  // what the parent has registered to be done at its exit is the parent's
#endif
}

Board* new_board() {
  void* const pages =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : new (pages) Board();
}

// Stages in which threads of the child were when it died.
std::vector<std::string> stages_in_work() {
  std::vector<std::string> stages;
  for (const Board::Slot& slot : board->slots) {
    if (slot.used) {
      stages.emplace_back(slot.stage.data());
    }
  }
  return stages;
}

bool is_deadly(const std::string& stage) {
  return std::any_of(deadly_stages.begin(), deadly_stages.end(),
                     [&](const InternalError& error) { return error.stage == stage; });
}

// False: nothing is left that could be left out.
bool leave_out(const std::string& name, int signal) {
  const std::vector<std::string> stages = stages_in_work();
  if (stages.size() > 1 && !after_a_crash) {
    return true;  // which of them will show when they run one after the other
  }
  std::string stage = stages.empty() ? name : stages.front();
  if (is_deadly(stage) || deadly_stages.size() >= kMostDeadly) {
    stage = name;
  }
  if (is_deadly(stage)) {
    return false;
  }
  deadly_stages.push_back({stage, name_of(signal)});
  return true;
}

int give_up(int signal) {
  const std::vector<std::string> stages = stages_in_work();
  std::fprintf(stderr, "traintrace: internal error: %s%s%s; %s\n", name_of(signal).c_str(),
               stages.empty() ? "" : " in step: ", stages.empty() ? "" : stages.front().c_str(),
               kReportInternalError);
  return kUnusable;
}

// How an attempt ended.
struct Attempt {
  bool begun = false;
  int status = 0;                          // as of waitpid
  std::optional<std::string> silent_file;  // it waited for this one, and was killed
};

// Most calls end when their process is killed; where one does not the child is left behind.
void kill_silent(pid_t child) {
  constexpr int kAttempts = 100;
  constexpr useconds_t kPause = 10'000;
  kill(child, SIGKILL);
  for (int i = 0; i < kAttempts && waitpid(child, nullptr, WNOHANG) == 0; ++i) {
    usleep(kPause);
  }
}

void wait_for(pid_t child, Attempt& attempt) {
  constexpr int kPause = 1000;  // ms
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  SilenceWatch watch(child);
  while (descriptor >= 0) {
    pollfd end = {descriptor, POLLIN, 0};
    if (poll(&end, 1, kPause) > 0) {
      break;
    }
    attempt.silent_file = watch.silent_file();
    if (attempt.silent_file) {
      kill_silent(child);
      close(descriptor);
      return;
    }
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
  while (waitpid(child, &attempt.status, 0) < 0) {
    if (errno != EINTR) {
      attempt.begun = false;
      return;
    }
  }
}

Attempt run_child(const std::function<int()>& work) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return {};
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(kUnusable);
    }
    end_child(work());
  }
  Attempt attempt = {true, 0, std::nullopt};
  wait_for(child, attempt);
  return attempt;
}

void say_silent(const std::string& file, const std::string& left_out) {
  std::fprintf(stderr, "traintrace: %s: %s%s%s\n", file.empty() ? "a file" : file.c_str(),
               kIsSilent, left_out.empty() ? "" : "; left out: ", left_out.c_str());
}

Inputs ask_inputs() {
  Inputs all = Inputs::kAnswer;
  for (const auto& ask : input_questions) {
    all = std::max(all, ask());
  }
  return all;
}

// False: that was all.
bool leave_out_silent(const std::string& name, const std::string& file) {
  if (board->spoken) {
    say_silent(file, "");
    return false;
  }
  const Inputs inputs = ask_inputs();
  if (inputs != Inputs::kAnswer) {
    return inputs == Inputs::kSomeSilent;
  }
  if (!std::exchange(anything_silent, true)) {
    return true;  // the next attempt asks all files first
  }
  const std::vector<std::string> stages = stages_in_work();
  if (stages.size() > 1 && !after_a_crash) {
    return true;
  }
  if (stages.empty() || stages.front() == name || silent_stages.size() >= kMostDeadly) {
    say_silent(file, "");
    return false;
  }
  say_silent(file, stages.front());
  silent_stages.push_back(stages.front());
  return true;
}

// Who ends a command by a signal must find that it ended by that.
[[noreturn]] void die_as_child(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  _exit(128 + signal);
}

}  // namespace

namespace {

// A thread that hangs in another process's memory was left behind (live/in_time.h), say: in a child
// its locks would be held for ever.
bool has_other_threads() {
  std::error_code problem;
  const std::filesystem::directory_iterator tasks("/proc/self/task", problem);
  return problem || std::distance(begin(tasks), end(tasks)) > 1;
}

}  // namespace

int supervise(const std::string& name, const std::function<int()>& work,
              const std::function<int()>& otherwise) {
  const auto all = [&] { return run_all(name, work, otherwise); };
  if (has_other_threads()) {
    return all();
  }
  silent_stages.clear();
  anything_silent = false;
  for (deadly_stages.clear(), after_a_crash = false;; after_a_crash = true) {
    board = new_board();
    const Attempt attempt = board == nullptr ? Attempt() : run_child(all);
    if (!attempt.begun) {
      return all();
    }
    if (attempt.silent_file) {
      if (!leave_out_silent(name, *attempt.silent_file)) {
        return kUnusable;
      }
      munmap(std::exchange(board, nullptr), sizeof(Board));
      continue;
    }
    const int status = attempt.status;
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal == 0) {
      munmap(std::exchange(board, nullptr), sizeof(Board));
      return WEXITSTATUS(status);
    }
    if (!is_crash(signal)) {
      die_as_child(signal);
    }
    if (board->spoken || !leave_out(name, signal)) {
      return give_up(signal);
    }
    munmap(std::exchange(board, nullptr), sizeof(Board));
  }
}

void ask_inputs_by(std::function<Inputs()> ask) {
  input_questions.push_back(std::move(ask));
}

void about_to_speak() {
  if (board != nullptr) {
    board->spoken = true;
  }
}

bool one_stage_at_a_time() {
  return after_a_crash;
}

}  // namespace traintrace
