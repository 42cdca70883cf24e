#include "support/process.h"

#include "format/trace_format.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace preload {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRoleFlag = "--role";

[[noreturn]] void become(const Program& program, int output, int errors) {
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  for (const auto& [name, value] : program.environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  if (program.traced) {
    const std::string all =
        program.preload_before + " " + PRELOAD_LIBRARY + " " + program.preload_after;
    setenv("LD_PRELOAD", all.c_str(), 1);
  }
  std::vector<char*> arguments;
  for (const std::string& argument : program.command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

void read_both(int (&pipes)[2], std::string (&texts)[2]) {
  pollfd waiting[2] = {{pipes[0], POLLIN, 0}, {pipes[1], POLLIN, 0}};
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    poll(waiting, 2, -1);
    for (int i = 0; i < 2; ++i) {
      char buffer[4096];
      const ssize_t got = waiting[i].revents ? read(waiting[i].fd, buffer, sizeof buffer) : -2;
      if (got > 0) {
        texts[i].append(buffer, static_cast<size_t>(got));
      } else if (got != -2) {
        waiting[i].fd = -1;
      }
    }
  }
}

}  // namespace

bool Outcome::exited_with(int code) const {
  return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

bool Outcome::killed_by(int signal) const {
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

Program self(const std::string& role, std::vector<std::string> arguments) {
  Program program;
  program.command = {fs::read_symlink("/proc/self/exe"), kRoleFlag, role};
  program.command.insert(program.command.end(), arguments.begin(), arguments.end());
  return program;
}

std::vector<std::string> role(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == kRoleFlag) {
    return {argv + 2, argv + argc};
  }
  return {};
}

// Until no memory of a process that has ended waits to be copied (format/trace_format.h): a process
// that is killed does not wait for its keeper.  One that was killed early may be gone before its
// keeper has started, so a memory that has none yet is given time.
void wait_for_keepers() {
  constexpr int kMostRounds = 2000;
  constexpr int kRoundsToStart = 600;
  const fs::path folder = "/dev/shm/traintrace-" + std::to_string(geteuid());
  struct stat own = {};
  stat("/proc/self/ns/pid", &own);
  for (int round = 0; round < kMostRounds; ++round) {
    bool any = false;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      traintrace::format::FileHeader header = {};
      std::ifstream file(entry.path(), std::ios::binary);
      file.read(reinterpret_cast<char*>(&header), sizeof header);
      const bool will_be_copied = header.keeper_pid == 0
                                      ? round < kRoundsToStart
                                      : fs::exists("/proc/" + std::to_string(header.keeper_pid));
      any = any || (entry.path().extension() == ".trace" && file && header.ready != 0 &&
                    header.pid_namespace == own.st_ino &&
                    !fs::exists("/proc/" + std::to_string(header.pid)) && will_be_copied);
    }
    if (!any) {
      return;
    }
    usleep(5000);
  }
}

Outcome run(const Program& program) {
  int output[2];
  int errors[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  const pid_t child = fork();
  if (child == 0) {
    become(program, output[1], errors[1]);
  }
  close(output[1]);
  close(errors[1]);
  if (program.kill_after_us >= 0) {
    usleep(static_cast<useconds_t>(program.kill_after_us));
    kill(child, SIGKILL);
  }
  Outcome outcome;
  int pipes[2] = {output[0], errors[0]};
  std::string texts[2];
  read_both(pipes, texts);
  outcome.output = texts[0];
  outcome.errors = texts[1];
  waitpid(child, &outcome.status, 0);
  wait_for_keepers();
  close(output[0]);
  close(errors[0]);
  return outcome;
}

Folder::Folder() : Folder(fs::temp_directory_path()) {}

Folder::Folder(const std::string& inside) : path_(inside + "/preload.XXXXXX") {
  if (!mkdtemp(path_.data())) {
    throw std::runtime_error("no folder in " + inside);
  }
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> Folder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Folder::traces() const {
  std::vector<std::string> paths;
  for (const std::string& name : files()) {
    if (name.ends_with(".trace")) {
      paths.push_back(path_ + "/" + name);
    }
  }
  return paths;
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace preload
