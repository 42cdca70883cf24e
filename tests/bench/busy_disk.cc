// How long calls take while another process writes to the disk of the traces, and syncs.
//   busy_disk LIBRARY FOLDER [SECONDS]   prints a table: untraced and traced, disk idle and busy
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlock = 4 << 20;
constexpr int kBlocksPerFile = 64;
constexpr int kPauseNs = 10'000;  // between calls: busy, as a training loop between launches

[[noreturn]] void write_for_ever(const std::string& path) {
  const std::vector<char> block(kBlock, 'x');
  for (;;) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < kBlocksPerFile; ++i) {
      if (write(file, block.data(), block.size()) < 0 || fsync(file) != 0) {
        _exit(1);
      }
    }
    close(file);
  }
}

// In the measured process: the time of each call.
int measure(const char* title, double seconds) {
  std::vector<uint32_t> ns;
  ns.reserve(1 << 24);
  cudaFree(nullptr);
  usleep(200'000);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto before = Clock::now(); before < end && ns.size() < ns.capacity();) {
    cudaMemset(nullptr, 0, 0);
    const auto after = Clock::now();
    ns.push_back(static_cast<uint32_t>(std::chrono::nanoseconds(after - before).count()));
    do {
      before = Clock::now();
    } while (before - after < std::chrono::nanoseconds(kPauseNs));
  }
  std::sort(ns.begin(), ns.end());
  const auto at = [&](double share) {
    return static_cast<double>(
               ns[static_cast<size_t>(share * static_cast<double>(ns.size() - 1))]) /
           1e3;
  };
  printf("%-16s %9zu calls  p50 %7.3f  p99 %7.3f  p99.99 %8.3f  max %9.3f us\n", title, ns.size(),
         at(0.5), at(0.99), at(0.9999), at(1));
  return 0;
}

void run_measured(const char* library, const std::string& folder, const char* title,
                  const char* seconds) {
  const pid_t child = fork();
  if (child == 0) {
    if (library) {
      setenv("LD_PRELOAD", library, 1);
      setenv("TRAINTRACE_DIR", (folder + "/traces").c_str(), 1);
    }
    execl("/proc/self/exe", "busy_disk", "--measure", title, seconds, nullptr);
    _exit(127);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 4 && !strcmp(arguments[1], "--measure")) {
    return measure(arguments[2], atof(arguments[3]));
  }
  if (count < 3) {
    fprintf(stderr, "usage: busy_disk LIBRARY FOLDER [SECONDS]\n");
    return 2;
  }
  const std::string folder = arguments[2];
  const char* const seconds = count > 3 ? arguments[3] : "10";
  run_measured(nullptr, folder, "untraced, idle", seconds);
  run_measured(arguments[1], folder, "traced, idle", seconds);
  const pid_t writer = fork();
  if (writer == 0) {
    write_for_ever(folder + "/busy");
  }
  run_measured(nullptr, folder, "untraced, busy", seconds);
  run_measured(arguments[1], folder, "traced, busy", seconds);
  kill(writer, SIGKILL);
  waitpid(writer, nullptr, 0);
  unlink((folder + "/busy").c_str());
  return 0;
}
