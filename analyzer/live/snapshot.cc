#include "analyzer/live/snapshot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "analyzer/live/job_now.h"
#include "analyzer/reader/sections/threads_file.h"
#include "analyzer/text/dump_printer.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kPatienceSeconds = 5;
constexpr TimeNs kInterval = 300'000'000;

// Whoever starts this may have blocked all signals, and ignored some.
void end_in_time() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGALRM, SIG_DFL);
  alarm(kPatienceSeconds);
}

// All ranks abort at about the same time: one looks at all, the others wait for that.
void take_turns(const std::string& folder) {
  const int file = open((folder + "/snapshot.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) {
    flock(file, LOCK_EX);  // until this process ends
  }
}

bool is_fresh(const std::string& path) {
  constexpr auto kFresh = std::chrono::seconds(10);
  std::error_code problem;
  const auto written = fs::last_write_time(path, problem);
  return !problem && fs::file_time_type::clock::now() - written < kFresh;
}

void leave(const ProcessTrace& trace) {
  ProcessTrace seen;
  seen.host = trace.host;
  seen.pid = trace.pid;
  seen.start_time = trace.start_time;
  seen.looked = trace.looked;
  seen.now = trace.now;
  const std::string path = threads_file_of(trace.source);
  {
    std::ofstream file(path + ".new", std::ios::binary | std::ios::trunc);
    print_dump({&seen, 1}, {}, [&](std::string_view text) { file << text; });
    if (!file.flush()) {
      return;
    }
  }
  std::rename((path + ".new").c_str(), path.c_str());
}

}  // namespace

int leave_snapshot(const std::string& folder) {
  end_in_time();
  umask(0077);
  take_turns(folder);
  JobOptions options;
  options.interval = kInterval;
  const std::string folders[] = {folder};
  for (const ProcessTrace& trace : read_traces(folders, {.events = false}).processes) {
    if (trace.running_now == true && !is_fresh(threads_file_of(trace.source))) {
      options.pids.push_back(trace.pid);
    }
  }
  if (options.pids.empty()) {
    return 0;
  }
  Result<Job> job = Job::find(options);
  if (!job) {
    return 2;
  }
  for (const ProcessTrace& trace : job->look().traces.processes) {
    if (!trace.now.empty()) {
      leave(trace);
    }
  }
  return 0;
}

}  // namespace traintrace
