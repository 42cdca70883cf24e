// uses: state
// Which marks are put on which stream, and what is kept of them: on a driver that only takes notes.
#include "interpose/gpu/marks.h"

#include <gtest/gtest.h>

#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using format::CallId;
using format::MarkWords;
using format::OperationProgress;
using testing_world::World;

constexpr uint64_t kComm = 0x1000;
constexpr uint64_t kOther = 0x2000;
constexpr uint64_t kStream = 0x5000;
constexpr uint64_t kOtherStream = 0x6000;
constexpr int kInProgress = 7;

struct Write {
  uint64_t stream;
  uint32_t* word;
  uint32_t value;
};
std::vector<Write> g_writes;
uint64_t g_capturing;
size_t g_refuse_at;  // the n-th write from 1, 0: none

bool may_write(ThreadState&, uint64_t stream) {
  return stream != g_capturing;
}
bool write_mark(ThreadState&, uint64_t stream, const uint32_t& word, uint32_t value) {
  g_writes.push_back({stream, const_cast<uint32_t*>(&word), value});
  return g_writes.size() != g_refuse_at;
}
// The GPU comes as far as the first `count` marks.
void execute(size_t count) {
  for (size_t i = 0; i < count && i < g_writes.size(); ++i) {
    *g_writes[i].word = g_writes[i].value;
  }
}

class Marks : public testing::Test {
 protected:
  Marks() {
    g_writes.clear();
    g_capturing = 0;
    g_refuse_at = 0;
    marks_turn_on({may_write, write_mark}, words, 0);
  }
  ~Marks() override { g_gpu_progress = GpuProgress::kObserve; }

  uint32_t communicator(uint64_t handle, bool non_blocking = false, int device = 0) {
    unsigned char id[128] = {};
    std::memcpy(id, &handle, sizeof handle);
    CommunicatorArguments arguments{};
    arguments.origin = format::kInitRank;
    arguments.unique_id = id;
    arguments.size = 2;
    arguments.device = device;
    arguments.non_blocking = non_blocking;
    const uint32_t number = communicator_entered(world.thread(), arguments);
    communicator_ready(world.thread(), number, handle, 0, 1);
    return number;
  }
  OperationRef enter(uint64_t comm = kComm, uint64_t stream = kStream, uint32_t thread = 0) {
    OperationArguments arguments{};
    arguments.call = CallId::ncclAllReduce;
    arguments.collective = true;
    arguments.communicator = comm;
    arguments.count = 8;
    arguments.peer = -1;
    arguments.stream = stream;
    arguments.ticks = ++ticks;
    return operation_entered(world.thread(thread), arguments);
  }
  void leave(const OperationRef& ref, int result = 0, uint32_t thread = 0) {
    operation_left(world.thread(thread), ref, result, ++ticks);
  }
  OperationRef run(uint64_t comm = kComm, uint64_t stream = kStream) {
    const OperationRef ref = enter(comm, stream);
    leave(ref);
    return ref;
  }
  const OperationProgress& progress(const OperationRef& ref) {
    const auto index = ref.operation - world.table<format::Operation>(format::kOperations);
    return world.table<OperationProgress>(format::kOperationProgress)[index];
  }
  // As a reader sees it: 0 nothing is known, 1 enqueued, 2 reached, 3 finished.
  int state(const OperationRef& ref) {
    const OperationProgress& said = progress(ref);
    if (said.launch == 0 || said.index_low != ref.operation->index_low) {
      return 0;
    }
    if ((said.flags & format::kFrozen) != 0) {
      return (said.flags & format::kSeenFinished) != 0  ? 3
             : (said.flags & format::kSeenReached) != 0 ? 2
                                                        : 1;
    }
    const MarkWords& word = words[said.stream - 1];
    return format::is_marked(word.finished, said.launch)  ? 3
           : format::is_marked(word.reached, said.launch) ? 2
                                                          : 1;
  }
  std::string fact(const std::string& key) {
    for (const format::DefinitionHead* head : world.definitions(format::kFact)) {
      const auto* fact = reinterpret_cast<const format::FactDefinition*>(head);
      const auto* text = reinterpret_cast<const char*>(fact + 1);
      if (std::string(text, fact->key_bytes) == key) {
        return std::string(text + fact->key_bytes, fact->value_bytes);
      }
    }
    return "";
  }
  static World make_world() {
    g_gpu_progress = GpuProgress::kMarks;
    testing_world::Sizes sizes;
    sizes.progress = true;
    return World(sizes);
  }

  World world = make_world();
  MarkWords words[64] = {};
  uint64_t ticks = 100;
};

TEST_F(Marks, LieBeforeAndAfterTheLaunch) {
  communicator(kComm);
  const OperationRef first = enter();
  ASSERT_EQ(g_writes.size(), 1u);
  EXPECT_EQ(g_writes[0].stream, kStream);
  EXPECT_EQ(state(first), 1);
  leave(first);
  ASSERT_EQ(g_writes.size(), 2u);
  const OperationRef second = run();
  ASSERT_EQ(g_writes.size(), 4u);
  EXPECT_EQ(state(first), 1);
  execute(1);
  EXPECT_EQ(state(first), 2);
  execute(2);
  EXPECT_EQ(state(first), 3);
  EXPECT_EQ(state(second), 1);
  execute(3);
  EXPECT_EQ(state(second), 2);
  EXPECT_EQ(state(first), 3);
  execute(4);
  EXPECT_EQ(state(second), 3);
  EXPECT_EQ(world.stat(format::Stat::MarksFailed), 0u);
}

TEST_F(Marks, OfAGroupAreOnePairForEachStream) {
  communicator(kComm);
  group_started(world.thread());
  const OperationRef a = run();
  const OperationRef b = run();
  const OperationRef c = run(kComm, kOtherStream);
  EXPECT_TRUE(g_writes.empty());
  group_ending(world.thread());
  ASSERT_EQ(g_writes.size(), 2u);
  EXPECT_NE(g_writes[0].stream, g_writes[1].stream);
  group_ended(world.thread(), 0, 200);
  ASSERT_EQ(g_writes.size(), 4u);
  execute(1);
  EXPECT_EQ(state(a), 2);
  EXPECT_EQ(state(b), 2);
  EXPECT_EQ(state(c), 1);
  execute(4);
  EXPECT_EQ(state(c), 3);
  EXPECT_EQ(progress(a).flags & format::kShared, 0u);
}

TEST_F(Marks, OfSeveralCommunicatorsOnOneStreamAreShared) {
  communicator(kComm);
  communicator(kOther);
  group_started(world.thread());
  const OperationRef a = run(kComm, kStream);
  const OperationRef b = run(kOther, kStream);
  const OperationRef c = run(kOther, kOtherStream);
  group_ending(world.thread());
  group_ended(world.thread(), 0, 200);
  EXPECT_EQ(g_writes.size(), 4u);
  EXPECT_NE(progress(a).flags & format::kShared, 0u);
  EXPECT_NE(progress(b).flags & format::kShared, 0u);
  EXPECT_EQ(progress(c).flags & format::kShared, 0u);
}

TEST_F(Marks, AreNotPutIntoACapture) {
  communicator(kComm);
  g_capturing = kStream;
  EXPECT_EQ(state(run()), 0);
  EXPECT_TRUE(g_writes.empty());
  g_capturing = 0;
  EXPECT_EQ(state(run()), 1);
  // One that the tracer knows of is not even asked about.
  capture_began(world.thread(), kOtherStream);
  EXPECT_EQ(state(run(kComm, kOtherStream)), 0);
  EXPECT_EQ(g_writes.size(), 2u);
}

TEST_F(Marks, OfWhatDoesNotBlockAreNone) {
  communicator(kComm);
  const uint32_t number = communicator(kOther, true);
  EXPECT_EQ(state(run(kOther)), 0);
  EXPECT_EQ(fact("gpu-progress.communicator-" + std::to_string(number)),
            "observe: it does not block");
  group_started(world.thread());
  const OperationRef beside = run();
  run(kOther);
  group_ending(world.thread());
  group_ended(world.thread(), kInProgress, 200);
  EXPECT_EQ(state(beside), 0);
  EXPECT_TRUE(g_writes.empty());
}

TEST_F(Marks, OfACallThatWentOnByItselfAreWithdrawn) {
  const uint32_t number = communicator(kComm);
  const OperationRef ref = enter();
  leave(ref, kInProgress);
  EXPECT_EQ(state(ref), 0);
  EXPECT_EQ(g_writes.size(), 1u);
  world.communicator(number).flags |= format::kNonBlocking;
  EXPECT_EQ(state(run()), 0);
  EXPECT_EQ(g_writes.size(), 1u);
}

TEST_F(Marks, ThatAreRefusedAreCountedAndSayNothing) {
  communicator(kComm);
  g_refuse_at = 1;
  EXPECT_EQ(state(run()), 0);
  EXPECT_EQ(g_writes.size(), 1u);  // no second one
  g_refuse_at = 3;
  EXPECT_EQ(state(run()), 0);
  EXPECT_EQ(world.stat(format::Stat::MarksFailed), 2u);
  const OperationRef next = run();
  execute(g_writes.size());
  EXPECT_EQ(state(next), 3);
}

TEST_F(Marks, OfAFailedCallAreWithdrawn) {
  communicator(kComm);
  const OperationRef ref = enter();
  leave(ref, 4);
  EXPECT_EQ(state(ref), 0);
  EXPECT_EQ(world.stat(format::Stat::MarksFailed), 0u);
}

TEST_F(Marks, BelongToOneThreadPerStream) {
  communicator(kComm);
  communicator(kOther);
  const OperationRef outer = enter();
  const OperationRef other = enter(kOther, kStream, 1);
  EXPECT_EQ(g_writes.size(), 1u);
  leave(other, 0, 1);
  leave(outer);
  EXPECT_EQ(state(other), 0);
  EXPECT_EQ(state(outer), 1);
  EXPECT_EQ(g_writes.size(), 2u);
  const OperationRef later = enter(kOther, kStream, 1);
  EXPECT_EQ(state(later), 1);
}

TEST_F(Marks, AreFrozenByAnAbort) {
  communicator(kComm);
  const OperationRef done = run();
  const OperationRef reached = run();
  const OperationRef behind = run();
  execute(3);
  communicator_ending(world.thread(1), kComm, CommunicatorEnd::kAbort, 0, 500);
  execute(g_writes.size());  // the stream runs on
  EXPECT_EQ(state(done), 3);
  EXPECT_EQ(state(reached), 2);
  EXPECT_EQ(state(behind), 1);
  EXPECT_NE(done.operation->flags & format::kFinished, 0);
  EXPECT_EQ(reached.operation->flags & format::kFinished, 0);
}

TEST_F(Marks, OfACallThatAnAbortInterruptsStayAsTheyWere) {
  communicator(kComm);
  const OperationRef ref = enter();
  execute(1);
  communicator_ending(world.thread(1), kComm, CommunicatorEnd::kAbort, 0, 500);
  leave(ref);
  EXPECT_EQ(g_writes.size(), 1u);  // the second would say that it has finished
  EXPECT_EQ(state(ref), 2);
}

TEST_F(Marks, EndWithASecondDevice) {
  communicator(kComm);
  const OperationRef before = run();
  communicator(kOther, false, 1);
  EXPECT_FALSE(marks_are_on());
  EXPECT_EQ(state(run()), 0);
  EXPECT_EQ(state(run(kOther)), 0);
  EXPECT_EQ(g_writes.size(), 2u);
  EXPECT_EQ(fact("gpu-progress-ended"), "a communicator is on another device of the process");
  execute(2);
  EXPECT_EQ(state(before), 3);
}

TEST_F(Marks, AreCopiedIntoTheTrace) {
  communicator(kComm);
  const OperationRef first = run();
  run();
  execute(3);
  marks_copy();
  const MarkWords& copy = world.table<MarkWords>(format::kMarks)[progress(first).stream - 1];
  EXPECT_EQ(copy.reached, 2u);
  EXPECT_EQ(copy.finished, 1u);
  EXPECT_EQ(copy.launched, 2u);
}

TEST_F(Marks, OfAnElementUsedAgainAreNotTakenForIts) {
  communicator(kComm);
  const OperationRef old = run();
  marks_turn_off(world.thread(), "for the test");
  for (uint32_t i = 0; i < format::kRecentOperations; ++i) {
    run();
  }
  EXPECT_EQ(progress(old).launch, 1u);  // still there, but not of the operation that is there now
  EXPECT_EQ(state(old), 0);
}

}  // namespace
}  // namespace traintrace
