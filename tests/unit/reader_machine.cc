// uses: analyzer
// What is known of processes of this machine, and one clock for all of a machine.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "analyzer/live/proc_files.h"
#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/this_machine.h"
#include "tests/unit/trace_builder.h"

namespace traintrace {
namespace {

using testing::TemporaryFile;
using testing::TraceBuilder;

constexpr uint64_t kSecond = 1'000'000'000;

// As the tracer in that process would write it.
format::FileHeader header_of(pid_t pid) {
  format::FileHeader header{};
  const auto boot = boot_id();
  header.boot_id[0] = (*boot)[0];
  header.boot_id[1] = (*boot)[1];
  struct stat status = {};
  stat("/proc/self/ns/pid", &status);
  header.pid_namespace = status.st_ino;
  header.pid = pid;
  const Result<ProcProcess> process = read_process(pid);
  header.start_time = process ? process->start_time : 0;
  return header;
}

// A child that does that and then waits for a signal.
template <class Work>
pid_t child_that(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    while (true) {
      pause();
    }
  }
  return child;
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// Of /proc/PID/stat.
void wait_for_state(pid_t pid, char state) {
  for (int i = 0; i < 1000; ++i) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(')');
    if (name_end != text.npos && text.size() > name_end + 2 && text[name_end + 2] == state) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "process " << pid << " does not come to state " << state;
}

TEST(ReaderMachine, AProcessThatIsStoppedIsThere) {
  const pid_t child = child_that([] {});
  const format::FileHeader header = header_of(child);
  EXPECT_EQ(is_running(header), true);
  EXPECT_EQ(halt_of(child), Halt::kNot);
  kill(child, SIGSTOP);
  wait_for_state(child, 'T');
  EXPECT_EQ(is_running(header), true);
  EXPECT_EQ(halt_of(child), Halt::kStopped);
  end(child);
  EXPECT_EQ(is_running(header), false);
}

TEST(ReaderMachine, AProcessThatNobodyHasWaitedForIsGone) {
  const pid_t child = child_that([] {});
  const format::FileHeader header = header_of(child);
  kill(child, SIGKILL);
  wait_for_state(child, 'Z');
  for (int round = 0; round < 1000 && is_running(header) == true; ++round) {
    usleep(5000);  // a sanitizer's own thread may end after the main one
  }
  EXPECT_EQ(is_running(header), false);
  waitpid(child, nullptr, 0);
}

TEST(ReaderMachine, AProcessGoesOnWithoutItsMainThread) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "no threads after a fork";
#endif
  const pid_t child = child_that([] {
    std::thread([] {
      while (true) {
        pause();
      }
    }).detach();
    syscall(SYS_exit, 0);
  });
  const format::FileHeader header = header_of(child);
  wait_for_state(child, 'Z');
  EXPECT_EQ(is_running(header), true);
  end(child);
}

TEST(ReaderMachine, ItsNumberGivenToAnotherItIsGone) {
  const pid_t child = child_that([] {});
  format::FileHeader header = header_of(child);
  --header.start_time;
  EXPECT_EQ(is_running(header), false);
  end(child);
}

TEST(ReaderMachine, ElsewhereNothingIsKnown) {
  format::FileHeader header = header_of(getpid());
  EXPECT_EQ(is_running(header), true);
  ++header.pid_namespace;
  EXPECT_EQ(is_running(header), std::nullopt) << "of another PID namespace";
  header = header_of(getpid());
  ++header.boot_id[1];
  gethostname(header.host, sizeof header.host - 1);
  EXPECT_EQ(is_running(header), std::nullopt) << "hosts may have equal names";
  header = header_of(getpid());
  header.pid = -1;
  EXPECT_EQ(is_running(header), std::nullopt);
}

// A folder that stands for /.
class Root {
 public:
  Root() : path_("/tmp/traintrace-root-" + std::to_string(getpid())) {}
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ~Root() { std::filesystem::remove_all(path_); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ReaderMachine, FrozenWithItsCgroup) {
  const Root root;
  root.write("/proc/7/stat", "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 99 0 0\n");
  root.write("/proc/7/cgroup", "0::/docker/abc\n");
  root.write("/sys/fs/cgroup/docker/abc/cgroup.events", "populated 1\nfrozen 0\n");
  EXPECT_EQ(halt_of(7, root.path()), Halt::kNot);
  root.write("/sys/fs/cgroup/docker/abc/cgroup.events", "populated 1\nfrozen 1\n");
  EXPECT_EQ(halt_of(7, root.path()), Halt::kFrozen);
  root.write("/proc/7/cgroup", "12:cpu:/docker/abc\n5:freezer:/docker/def\n0::/\n");
  EXPECT_EQ(halt_of(7, root.path()), Halt::kNot);
  root.write("/sys/fs/cgroup/freezer/docker/def/freezer.state", "FROZEN\n");
  EXPECT_EQ(halt_of(7, root.path()), Halt::kFrozen);
}

TraceBuilder trace_of(int pid, uint64_t boottime_ns) {
  TraceBuilder builder;
  builder.header.pid = pid;
  builder.header.keep_flags |= format::kMachineBoottime;
  builder.header.anchor_boottime_ns[0] = boottime_ns;
  builder.header.anchor_boottime_ns[2] = boottime_ns + 60 * kSecond;
  return builder;
}

std::string path_of(int pid) {
  return "/tmp/traintrace-machine-" + std::to_string(getpid()) + "." + std::to_string(pid) +
         ".trace";
}

std::vector<TimeNs> last_alive(std::vector<TraceBuilder> builders) {
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<TemporaryFile>> files;
  for (TraceBuilder& builder : builders) {
    paths.push_back(path_of(builder.header.pid));
    files.push_back(std::make_unique<TemporaryFile>(paths.back(), builder.build()));
  }
  const TraceSet set = read_traces(paths, {});
  std::vector<TimeNs> times;
  for (const ProcessTrace& trace : set.processes) {
    times.push_back(trace.last_alive);
    // Read again by itself, it is told by the same clock.
    EXPECT_EQ(read_trace(trace.source, {.booted = trace.booted})->last_alive, trace.last_alive);
  }
  return times;
}

TEST(ReaderMachine, ProcessesOfOneMachineHaveOneClock) {
  // The second's newest heartbeat came half a second later, when the clock had been set by an hour.
  TraceBuilder before = trace_of(1, 100 * kSecond);
  TraceBuilder after = trace_of(2, 100 * kSecond + kSecond / 2);
  after.header.anchors[1].realtime_ns += 3600 * kSecond;
  const std::vector<TimeNs> times = last_alive({before, after});
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[1] - times[0], static_cast<TimeNs>(kSecond / 2));
  EXPECT_EQ(times[1], static_cast<TimeNs>(testing::kTestEpochNs + 3660 * kSecond))
      << "the clock as it stood last";
}

TEST(ReaderMachine, OtherMachinesHaveTheirs) {
  TraceBuilder here = trace_of(1, 100 * kSecond);
  TraceBuilder there = trace_of(2, 100 * kSecond + kSecond / 2);
  there.header.anchors[1].realtime_ns += 3600 * kSecond;
  there.header.boot_id[1] = 5;
  const std::vector<TimeNs> times = last_alive({here, there});
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[1] - times[0], static_cast<TimeNs>(3600 * kSecond));
}

// A time namespace is ahead by an hour, and its recorder did not know.
TEST(ReaderMachine, TimeNamespacesHaveTheirs) {
  TraceBuilder here = trace_of(1, 100 * kSecond);
  TraceBuilder there = trace_of(2, 3700 * kSecond);
  there.header.keep_flags = 0;
  const std::vector<TimeNs> times = last_alive({here, there});
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[1], times[0]) << "both were recorded at the same time of day";
}

// Where both clocks tell the same start of the machine, no namespace has moved the one.
TEST(ReaderMachine, ProcessesThatAgreeHaveOneClock) {
  TraceBuilder here = trace_of(1, 100 * kSecond);
  TraceBuilder there = trace_of(2, 100 * kSecond);
  there.header.keep_flags = 0;
  there.header.anchors[1].realtime_ns += 3600 * kSecond;  // was set after the first heartbeat
  there.header.anchor_boottime_ns[2] += kSecond;
  const std::vector<TimeNs> times = last_alive({here, there});
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[1] - times[0], static_cast<TimeNs>(kSecond));
}

TEST(ReaderMachine, OlderTracesAreTakenAtTheirWord) {
  TraceBuilder old = trace_of(1, 0);
  old.header.anchor_boottime_ns[2] = 0;
  TraceBuilder after = trace_of(2, 100 * kSecond);
  after.header.anchors[1].realtime_ns += 3600 * kSecond;
  const std::vector<TimeNs> times = last_alive({old, after});
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0], static_cast<TimeNs>(testing::kTestEpochNs + 60 * kSecond));
}

}  // namespace
}  // namespace traintrace
