#include "analyzer/isolation/supervise.h"

#include <sys/mman.h>
#include <sys/prctl.h>
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

#include "analyzer/isolation/board.h"

namespace traintrace {

Board* board = nullptr;
std::vector<InternalError> deadly_stages;

namespace {

constexpr int kUnusable = 2;
constexpr size_t kMostDeadly = 24;  // then all of it is given up

bool after_a_crash = false;

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

// Status as of waitpid; false: it could not be started.
bool run_child(const std::function<int()>& work, int& status) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return false;
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(kUnusable);
    }
    end_child(work());
  }
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return false;
    }
  }
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
  for (deadly_stages.clear(), after_a_crash = false;; after_a_crash = true) {
    board = new_board();
    int status = 0;
    if (board == nullptr || !run_child(all, status)) {
      return all();
    }
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

void about_to_speak() {
  if (board != nullptr) {
    board->spoken = true;
  }
}

bool one_stage_at_a_time() {
  return after_a_crash;
}

}  // namespace traintrace
