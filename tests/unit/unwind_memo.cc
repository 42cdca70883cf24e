// A remembered walk is taken for the same only where a new one would give the same frames.
// uses: interpose/native_frames.cc interpose/modules.cc interpose/modules_elf.cc
// uses: interpose/unwind_cfi.cc interpose/unwind_expression.cc interpose/unwind_row.cc
// uses: interpose/unwind_stack.cc
#include <alloca.h>
#include <gtest/gtest.h>

#include <vector>

#include "interpose/native_frames.h"

namespace traintrace {
namespace {

NativeMemo g_memo;

struct Capture {
  const void* frame;
  uint64_t hash;
  bool known;
  std::vector<uint64_t> frames;
};

// As the tracer does it: the remembered hash if there is one, else a walk; then what a walk without
// memory says.
[[gnu::noinline]] Capture capture() {
  Capture result;
  result.frame = __builtin_frame_address(0);
  result.known = native_hash_known(result.frame, g_memo, result.hash);
  uint64_t out[65];
  size_t count = native_frames(result.frame, out, 65);
  result.frames.assign(out, out + count);
  NativeMemo other;
  other.clear();
  uint64_t hash;
  native_frames(result.frame, out, 65, result.known ? other : g_memo, hash);
  EXPECT_TRUE(!result.known || result.hash == hash);
  result.hash = hash;
  return result;
}

// Two callers of the same shape (but not equal: the compiler would make them one), so that what
// they call has its frame at the same place.
[[gnu::noinline]] Capture first_caller(int depth) {
  Capture result = depth == 0 ? capture() : first_caller(depth - 1);
  asm volatile("" : : "r"(&result) : "memory");
  return result;
}
[[gnu::noinline]] Capture second_caller(int depth) {
  Capture result = depth == 0 ? capture() : first_caller(depth - 1);
  asm volatile("nop" : : "r"(&result) : "memory");
  return result;
}

// The frame's size is known at run time only, and what it leaves behind lies below other frames.
[[gnu::noinline]] Capture with_room(size_t bytes, int depth) {
  auto* room = static_cast<volatile char*>(alloca(bytes));
  room[0] = 1;
  room[bytes - 1] = 1;
  Capture result = first_caller(depth);
  asm volatile("" : : "r"(&result) : "memory");
  return result;
}

TEST(Memo, KnowsTheSameStackAgain) {
  g_memo.clear();
  std::vector<Capture> all;
  all.reserve(3);
  for (int i = 0; i < 3; ++i) {
    all.push_back(first_caller(15));
  }
  EXPECT_FALSE(all[0].known);
  EXPECT_TRUE(all[1].known);
  EXPECT_TRUE(all[2].known);
  EXPECT_EQ(all[0].hash, all[2].hash);
  EXPECT_EQ(all[0].frames, all[2].frames);
  EXPECT_GE(all[0].frames.size(), 17U);
}

TEST(Memo, TellsCallersApartWhoseFramesLieAtTheSamePlace) {
  g_memo.clear();
  std::vector<Capture> all;
  all.reserve(4);
  for (int i = 0; i < 4; ++i) {
    all.push_back(i % 2 == 0 ? first_caller(10) : second_caller(10));
  }
  EXPECT_EQ(all[0].frame, all[1].frame) << "else this test shows nothing";
  for (const Capture& one : all) {
    EXPECT_FALSE(one.known);
  }
  EXPECT_EQ(all[0].hash, all[2].hash);
  EXPECT_EQ(all[1].hash, all[3].hash);
  EXPECT_NE(all[0].hash, all[1].hash);
}

// 10 frames below a room of 4096 bytes, then 9 below one of 4096 and a frame more: what the earlier
// call left on the stack must not be taken for what is there.
TEST(Memo, IsNotTakenInByWhatEarlierCallsLeft) {
  g_memo.clear();
  int compared = 0;
  for (int round = 0; round < 20; ++round) {
    for (const size_t bytes : {64U, 256U, 1024U, 4096U}) {
      for (int depth = 0; depth < 12; ++depth) {
        // `capture` compares what is remembered with a walk.
        compared += with_room(bytes, depth).known ? 1 : 0;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(Memo, ForgetsUnderAnotherGeneration) {
  NativeMemo::Walk walk;
  uint64_t word = 5;
  walk.begin(0x1000, 7);
  walk.add(reinterpret_cast<uint64_t>(&word), 5);
  walk.end(99);
  EXPECT_TRUE(walk.holds(0x1000, 7));
  EXPECT_FALSE(walk.holds(0x1000, 8));
  EXPECT_FALSE(walk.holds(0x2000, 7));
  word = 6;
  EXPECT_FALSE(walk.holds(0x1000, 7));
}

TEST(Memo, DoesNotRememberWhatHasNoRoom) {
  NativeMemo::Walk walk;
  uint64_t word = 5;
  walk.begin(0x1000, 7);
  for (int i = 0; i < 1000; ++i) {
    walk.add(reinterpret_cast<uint64_t>(&word), 5);
  }
  walk.end(99);
  EXPECT_FALSE(walk.holds(0x1000, 7));
}

}  // namespace
}  // namespace traintrace
