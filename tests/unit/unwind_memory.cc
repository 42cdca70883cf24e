// What a walk may touch: only memory that is there, whatever the stack holds; and what it may cost
// on known code: no system call, no allocation, no look into tables.
// uses: interpose/record/map_memory.cc
// uses: interpose/stacks/modules.cc interpose/stacks/modules_elf.cc interpose/stacks/loader_walk.cc
// uses: interpose/stacks/native_frames.cc interpose/base/undisturbed.cc
// uses: interpose/stacks/unwind_cfi.cc
// uses: interpose/stacks/unwind_row.cc interpose/stacks/unwind_expression.cc
// uses: interpose/stacks/unwind_stack.cc
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "interpose/stacks/modules.h"
#include "interpose/stacks/unwind_stack.h"
#include "tests/unit/unwind_compare.h"

// A forked child starts a thread here, which TSan forbids unless told otherwise.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "die_after_fork=0";
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

namespace {

constexpr size_t kPage = 4096;
volatile int g_sink;

// Pages that can be written, with one before and one behind that cannot be touched.
class FencedPages {
 public:
  explicit FencedPages(size_t pages) : bytes_(pages * kPage) {
    void* all = mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin_ = static_cast<char*>(all) + kPage;
    mprotect(begin_, bytes_, PROT_READ | PROT_WRITE);
  }
  ~FencedPages() { munmap(begin_ - kPage, bytes_ + 2 * kPage); }
  FencedPages(const FencedPages&) = delete;
  FencedPages& operator=(const FencedPages&) = delete;

  uint64_t begin() const { return reinterpret_cast<uint64_t>(begin_); }
  uint64_t end() const { return begin() + bytes_; }
  uint64_t* words() const { return reinterpret_cast<uint64_t*>(begin_); }
  size_t word_count() const { return bytes_ / 8; }

 private:
  size_t bytes_;
  char* begin_;
};

TEST(UnwindMemory, WhatCanBeRead) {
  const FencedPages pages(1);
  EXPECT_TRUE(traintrace::is_readable(pages.begin()));
  EXPECT_TRUE(traintrace::is_readable(pages.end() - kPage));
  EXPECT_FALSE(traintrace::is_readable(pages.begin() - kPage));
  EXPECT_FALSE(traintrace::is_readable(pages.end()));
  EXPECT_FALSE(traintrace::is_readable(0));
  EXPECT_FALSE(traintrace::is_readable(uint64_t{1} << 47));
  EXPECT_FALSE(traintrace::is_readable(~uint64_t{0} & ~uint64_t{kPage - 1}));
}

TEST(UnwindMemory, AskingLeavesErrnoAndSignalsAlone) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  errno = 77;
  const FencedPages pages(1);
  errno = 77;
  traintrace::is_readable(pages.begin());
  traintrace::is_readable(pages.end());
  EXPECT_EQ(errno, 77);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int number = 1; number < SIGRTMAX; ++number) {
    EXPECT_EQ(sigismember(&before, number), sigismember(&after, number)) << number;
  }
}

// As if a function had been called whose frame is there.
traintrace::WalkStart from(uint64_t frame) {
  return {reinterpret_cast<void*>(frame), reinterpret_cast<void*>(frame + 16)};
}

__attribute__((noinline)) size_t capture(uint64_t* out, size_t max) {
  const size_t count = traintrace::native_frames(traintrace::walk_from_here(), out, max);
  g_sink = static_cast<int>(count);
  return count;
}

__attribute__((noinline)) size_t capture_below(int depth, uint64_t* out, size_t max) {
  const size_t count = depth == 0 ? capture(out, max) : capture_below(depth - 1, out, max);
  return count + static_cast<size_t>(g_sink) * 0;
}

TEST(UnwindMemory, KnownCodeCostsNothing) {
  uint64_t first[64];
  uint64_t second[64];
  capture_below(20, first, 64);
  const uint64_t probes = traintrace::stack_probes();
  const uint64_t misses = traintrace::native_frames_misses();
  for (int i = 0; i < 100; ++i) {
    capture_below(20, second, 64);
  }
  EXPECT_EQ(traintrace::stack_probes(), probes);
  // The loop calls from another place than the first time.
  EXPECT_LE(traintrace::native_frames_misses(), misses + 1);
}

TEST(UnwindMemory, EachThreadAsksAboutItsStackOnce) {
  std::thread([] {
    uint64_t frames[64];
    capture_below(20, frames, 64);
    const uint64_t probes = traintrace::stack_probes();
    for (int i = 0; i < 100; ++i) {
      EXPECT_GT(capture_below(i % 20, frames, 64), 3U);
    }
    EXPECT_EQ(traintrace::stack_probes(), probes);
  }).join();
}

TEST(UnwindMemory, NothingIsAllocated) {
  uint64_t frames[64];
  const size_t before = mallinfo2().uordblks;
  capture_below(20, frames, 64);
  capture_below(20, frames, 64);
  traintrace::refresh_modules();
  EXPECT_EQ(mallinfo2().uordblks, before);
}

TEST(UnwindMemory, NoMoreFramesThanThereIsRoom) {
  uint64_t frames[64] = {};
  EXPECT_EQ(capture_below(40, frames, 10), 10U);
  EXPECT_EQ(frames[10], 0U);
  EXPECT_EQ(capture_below(40, frames, 0), 0U);
}

TEST(UnwindMemory, FrameThatIsNotMapped) {
  uint64_t frames[8];
  // Nothing can be said of a frame whose own memory is gone, but that of the page behind it is
  // asked about.
  const FencedPages pages(1);
  pages.words()[pages.word_count() - 1] = 0;
  EXPECT_EQ(traintrace::native_frames(from(pages.end() - 8), frames, 8), 0U);
}

// Stacks made of what misleads a walk most: true return addresses, addresses on the stack and near
// its ends, small numbers.
uint64_t misleading_word(const FencedPages& pages, const std::vector<uint64_t>& code,
                         std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
    case 1:
    case 2:
      return code[random() % code.size()];
    case 3:
    case 4:
      return pages.begin() + random() % (pages.end() - pages.begin()) / 8 * 8;
    case 5:
      return pages.end() + random() % 64 - 32;
    case 6:
      return random() % 4096;
    default:
      return random();
  }
}

TEST(UnwindMemory, StacksMadeUp) {
  std::mt19937_64 random(1);
  uint64_t frames[256];
  std::vector<uint64_t> code(frames, frames + capture_below(30, frames, 256));
  traintrace::refresh_modules();
  const auto* libc = traintrace::module_of(reinterpret_cast<uint64_t>(&mallinfo2));
  ASSERT_NE(libc, nullptr);
  for (size_t i = 0; i < 2000; ++i) {  // anywhere in the C library: signal frames and all
    const traintrace::Segment& segment = libc->segments[1];
    code.push_back(segment.begin + random() % (segment.end - segment.begin));
  }
  const FencedPages pages(3);
  size_t most = 0;
  for (int round = 0; round < 3000; ++round) {
    for (size_t i = 0; i < pages.word_count(); ++i) {
      pages.words()[i] = misleading_word(pages, code, random);
    }
    for (int start = 0; start < 20; ++start) {
      const uint64_t frame = pages.begin() + random() % (pages.word_count() - 2) * 8;
      const size_t count = traintrace::native_frames(from(frame), frames, 256);
      most = std::max(most, count);
    }
  }
  EXPECT_GT(most, 3U);
}

// The same on the thread's own stack, whose memory is not asked about.
TEST(UnwindMemory, OwnStackMadeUp) {
  std::mt19937_64 random(2);
  uint64_t frames[256];
  const std::vector<uint64_t> code(frames, frames + capture_below(30, frames, 256));
  uint64_t words[2000];
  const auto low = reinterpret_cast<uint64_t>(words);
  for (int round = 0; round < 1000; ++round) {
    for (uint64_t& word : words) {
      const uint64_t near = low + random() % (sizeof words + (1 << 20));
      word = random() % 2 == 0 ? code[random() % code.size()] : near;
    }
    for (int start = 0; start < 20; ++start) {
      traintrace::native_frames(from(low + random() % 1000 * 8), frames, 256);
    }
  }
}

TEST(UnwindMemory, ChildAfterFork) {
  uint64_t frames[64];
  const size_t count = capture_below(10, frames, 64);
  std::thread([&] {
    const pid_t child = fork();
    if (child == 0) {
      traintrace::modules_after_fork();
      uint64_t inside[64];
      _exit(capture_below(10, inside, 64) > 10 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }).join();
  EXPECT_GT(count, 10U);
}

}  // namespace
