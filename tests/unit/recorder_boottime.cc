// uses: interpose/record/clock.cc interpose/base/files.cc
// What processes of one machine are compared by must be the same in all time namespaces.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "interpose/record/clock.h"

namespace traintrace {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// In a process of its own, as no other may be in a namespace that is to be set up.
template <class Check>
int in_child(Check check) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(check());
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool set_up_namespace(const char* offset) {
  const int file =
      unshare(CLONE_NEWTIME) == 0 ? open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC) : -1;
  const auto length = static_cast<ssize_t>(std::strlen(offset));
  const bool written = file >= 0 && write(file, offset, static_cast<size_t>(length)) == length;
  close(file);
  return written;
}

constexpr int kCannot = 2;

// How it is told by a child in such a namespace.
int told_in_namespace(const char* offset) {
  return in_child([&] {
    find_boottime_offset();
    const uint64_t before = boottime_ns();
    if (!set_up_namespace(offset)) {
      return kCannot;
    }
    return in_child([&] {
      const uint64_t here = nanoseconds(CLOCK_BOOTTIME);
      const bool is_moved = here < before || here - before > 1000 * kSecond;
      const bool is_known = find_boottime_offset();
      const uint64_t told = boottime_ns();
      return is_moved && is_known && told >= before && told - before < 5 * kSecond ? 0 : 1;
    });
  });
}

TEST(RecorderBoottime, IsTheMachines) {
  EXPECT_TRUE(find_boottime_offset());
  // A machine that was started a minute ago cannot be moved back by more.
  for (const char* const offset : {"boottime 1000000 0", "boottime -11 500000000"}) {
    const int told = told_in_namespace(offset);
    if (told == kCannot) {
      GTEST_SKIP() << "no time namespace can be made here";
    }
    EXPECT_EQ(told, 0) << offset;
  }
}

// After unshare() this process is not where its children will be, and the file tells of theirs.
TEST(RecorderBoottime, IsNotKnownBetweenNamespaces) {
  const int known = in_child([] {
    return !set_up_namespace("boottime 1000000 0") ? kCannot : find_boottime_offset() ? 1 : 0;
  });
  if (known == kCannot) {
    GTEST_SKIP() << "no time namespace can be made here";
  }
  EXPECT_EQ(known, 0);
}

}  // namespace
}  // namespace traintrace
