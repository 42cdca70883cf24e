#include "analyzer/live/served_time.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace traintrace {
namespace {

constexpr int kSlowest = 4;  // an elapsed second takes at most so many of the wall clock

// /proc/self/task/TID/stat: the state is the letter after the name, which is in parentheses.
bool is_ready_to_run(const std::filesystem::path& task) {
  std::ifstream file(task / "stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end != line.npos && line.compare(name_end, 3, ") R") == 0;
}

bool has_threads_ready_to_run() {
  const std::string self = std::to_string(gettid());
  std::error_code problem;
  const std::filesystem::directory_iterator tasks("/proc/self/task", problem);
  return !problem && std::any_of(begin(tasks), end(tasks), [&](const auto& task) {
    return task.path().filename() != self && is_ready_to_run(task.path());
  });
}

}  // namespace

std::chrono::nanoseconds ServedTime::processor_time() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

ServedTime::Clock::duration ServedTime::elapsed() {
  const Clock::time_point now = Clock::now();
  const auto processor_now = processor_time();
  const Clock::duration passed = now - seen_;
  const Clock::duration served =
      std::clamp<Clock::duration>(processor_now - processor_seen_, passed / kSlowest, passed);
  elapsed_ += served < passed && has_threads_ready_to_run() ? served : passed;
  seen_ = now;
  processor_seen_ = processor_now;
  return elapsed_;
}

}  // namespace traintrace
