// A remembered walk is taken for the same only where a new one would give the same frames.
// uses: interpose/record/map_memory.cc
// uses: interpose/stacks/native_frames.cc interpose/stacks/modules.cc
// uses: interpose/stacks/modules_elf.cc
// uses: interpose/stacks/loader_walk.cc
// uses: interpose/stacks/unwind_cfi.cc interpose/stacks/unwind_expression.cc
// uses: interpose/stacks/unwind_row.cc
// uses: interpose/stacks/unwind_stack.cc interpose/base/undisturbed.cc
#include <alloca.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "interpose/stacks/native_frames.h"

namespace traintrace {
namespace {

NativeMemo g_memo;

struct Capture {
  traintrace::WalkStart start;
  uint64_t hash;
  bool known;
  std::vector<uint64_t> frames;
};

// As the tracer does it: the remembered hash if there is one, else a walk; then what a walk without
// memory says.
[[gnu::noinline]] Capture capture() {
  Capture result;
  result.start = traintrace::walk_from_here();
  result.known = native_hash_known(result.start, g_memo, result.hash);
  uint64_t out[65];
  size_t count = native_frames(result.start, out, 65);
  result.frames.assign(out, out + count);
  static NativeMemo other;
  other.clear();
  uint64_t hash;
  native_frames(result.start, out, 65, result.known ? other : g_memo, hash);
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
  EXPECT_EQ(all[0].start.frame, all[1].start.frame) << "else this test shows nothing";
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i].known, i >= 2) << "both are remembered beside one another";
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

#if defined(__x86_64__)
// Calls `function` with `data` in rbp, as code does that keeps no frame pointer.
asm(R"(
.text
.type call_with_data_in_rbp, @function
call_with_data_in_rbp:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rdi, %rbp
  movq %rdx, %rdi
  callq *%rsi
  popq %rbp
  .cfi_restore %rbp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
.size call_with_data_in_rbp, .-call_with_data_in_rbp
)");
extern "C" void call_with_data_in_rbp(uint64_t data, void (*function)(void*), void* argument);

[[gnu::noinline]] void capture_into(void* result) {
  *static_cast<Capture*>(result) = capture();
  asm volatile("" : : : "memory");
}

// What rbp held in code that keeps data there does not tell stacks apart.
TEST(Memo, DoesNotCareForDataInRbp) {
  g_memo.clear();
  for (uint64_t i = 0; i < 3; ++i) {
    Capture one;
    call_with_data_in_rbp(0x1234 + i, capture_into, &one);
    EXPECT_EQ(one.known, i > 0);
  }
}
#endif

struct Remembered {
  NativeMemo::Walk walk{};
  uint64_t words[200]{};
  uint64_t frame() const { return reinterpret_cast<uint64_t>(words); }
  void add(size_t word) { walk.add(reinterpret_cast<uint64_t>(words + word), words[word]); }
};

TEST(Memo, ForgetsUnderAnotherGenerationAndInAnotherLife) {
  Remembered it;
  it.words[3] = 5;
  it.walk.begin(it.frame(), 7);
  it.add(1);
  it.add(3);
  it.walk.end(99, 1);
  EXPECT_TRUE(it.walk.holds(it.frame(), 7, 1));
  EXPECT_FALSE(it.walk.holds(it.frame(), 8, 1));
  EXPECT_FALSE(it.walk.holds(it.frame() + 8, 7, 1));
  EXPECT_FALSE(it.walk.holds(it.frame(), 7, 2));
  it.words[2] = 6;
  EXPECT_TRUE(it.walk.holds(it.frame(), 7, 1)) << "that one was not read";
  it.words[3] = 6;
  EXPECT_FALSE(it.walk.holds(it.frame(), 7, 1));
}

// Return addresses differ by little, and often in several frames at once.
TEST(Memo, WordsDoNotMakeUpForOneAnother) {
  Remembered it;
  it.walk.begin(it.frame(), 7);
  for (size_t word = 0; word < 50; ++word) {
    it.words[word] = 0x7F0000001000 + 16 * word;
    it.add(word);
  }
  it.walk.end(99, 1);
  ASSERT_TRUE(it.walk.holds(it.frame(), 7, 1));
  for (size_t one = 0; one < 50; ++one) {
    for (size_t other = 0; other < one; ++other) {
      for (int64_t by = -4; by <= 4; ++by) {
        for (int64_t back = 1; back <= 4; ++back) {
          it.words[one] += static_cast<uint64_t>(by);
          it.words[other] += static_cast<uint64_t>(back);
          EXPECT_FALSE(it.walk.holds(it.frame(), 7, 1)) << one << ' ' << other;
          it.words[one] -= static_cast<uint64_t>(by);
          it.words[other] -= static_cast<uint64_t>(back);
        }
      }
    }
  }
  std::swap(it.words[3], it.words[4]);
  EXPECT_FALSE(it.walk.holds(it.frame(), 7, 1));
}

TEST(Memo, DoesNotRememberWhatHasNoRoom) {
  Remembered it;
  it.walk.begin(it.frame(), 7);
  for (size_t word = 0; word < 200; ++word) {
    it.add(word);
  }
  it.walk.end(99, 1);
  EXPECT_FALSE(it.walk.holds(it.frame(), 7, 1));
  it.walk.begin(it.frame(), 7);
  it.walk.add(it.frame() + (uint64_t{1} << 20), 5);  // further up than can be said
  it.walk.end(99, 1);
  EXPECT_FALSE(it.walk.holds(it.frame(), 7, 1));
}

}  // namespace
}  // namespace traintrace
