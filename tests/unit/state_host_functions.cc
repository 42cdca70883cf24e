// uses: state
// Functions that the job puts on streams: called as they would be, and seen to be.
#include <gtest/gtest.h>

#include "interpose/tables/host_functions.h"
#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using testing_world::World;

constexpr uint64_t kComm = 0x1000;
constexpr uint64_t kStream = 0x5000;
constexpr uint32_t kRoom = 4;

// Of the driver, as these tests want it.
int g_capture_answer = 0;
int g_capture_status = 0;
int answer(uint64_t, int* status) {
  *status = g_capture_status;
  return g_capture_answer;
}

struct Call {
  int calls = 0;
  int status = -1;
  void* stream = nullptr;
};
void plain(void* data) {
  ++static_cast<Call*>(data)->calls;
}
void with_status(void* stream, int status, void* data) {
  auto& call = *static_cast<Call*>(data);
  ++call.calls;
  call.status = status;
  call.stream = stream;
}

class HostFunctions : public testing::Test {
 protected:
  HostFunctions() {
    g_capture_answer = g_capture_status = 0;
    host_functions_may_ask(answer);
    CommunicatorArguments arguments{};
    unsigned char id[128] = {1};
    arguments.origin = format::kInitRank;
    arguments.unique_id = id;
    arguments.size = 2;
    arguments.device = 0;
    communicator_ready(thread(), communicator_entered(thread(), arguments), kComm, 0, 1);
  }

  ThreadState& thread() { return world_.thread(); }

  uint32_t wrap(void* function, Call& call) {
    return host_function_wrapped(
        thread(), {format::CallId::cudaLaunchHostFunc, kStream, function, &call, 7, 1000});
  }
  uint32_t wrap_plain(Call& call) { return wrap(reinterpret_cast<void*>(&plain), call); }

  const format::HostFunction& element(uint32_t number) {
    return world_.table<format::HostFunction>(format::kHostFunctions)[number - 1];
  }

  const format::Operation& run_operation() {
    OperationArguments arguments{};
    arguments.call = format::CallId::ncclAllReduce;
    arguments.collective = true;
    arguments.communicator = kComm;
    arguments.count = 8;
    arguments.data_type = 7;
    arguments.peer = -1;
    arguments.stream = kStream;
    arguments.ticks = 10;
    const OperationRef ref = operation_entered(thread(), arguments);
    operation_left(thread(), ref, 0, 11);
    return *ref.operation;
  }
  bool finished(const format::Operation& operation) {
    const auto* const streams = world_.table<format::Stream>(format::kStreams);
    return operation.position != 0 && streams[operation.stream - 1].completed >= operation.position;
  }

  World world_;
};

TEST_F(HostFunctions, AreCalledWithTheirDataAndSeen) {
  Call call;
  const uint32_t number = wrap_plain(call);
  ASSERT_NE(number, 0u);
  host_function_enqueued(number, 0);
  EXPECT_EQ(element(number).function, reinterpret_cast<uint64_t>(&plain));
  EXPECT_EQ(element(number).enqueued_ticks, 1000u);
  EXPECT_EQ(element(number).stack, 7u);
  EXPECT_EQ(element(number).entered_ticks, 0u);
  call_host_function(host_function_data(number));
  EXPECT_EQ(call.calls, 1);
  EXPECT_NE(element(number).entered_ticks, 0u);
  EXPECT_GE(element(number).left_ticks, element(number).entered_ticks);
  EXPECT_EQ(element(number).tid, gettid());
}

TEST_F(HostFunctions, OnesThatAreCalledShowWhatIsBeforeThemToBeFinished) {
  const format::Operation& before = run_operation();
  Call call;
  const uint32_t number = wrap_plain(call);
  const format::Operation& behind = run_operation();
  EXPECT_EQ(element(number).position, before.position);
  EXPECT_EQ(element(number).stream, before.stream);
  EXPECT_FALSE(finished(before));
  call_host_function(host_function_data(number));
  EXPECT_TRUE(finished(before));
  EXPECT_FALSE(finished(behind));
}

TEST_F(HostFunctions, CallbacksOfAFailedStreamShowNothing) {
  const format::Operation& before = run_operation();
  Call call;
  constexpr int kLaunchFailure = 719;
  const uint32_t number = wrap(reinterpret_cast<void*>(&with_status), call);
  call_host_function_with_status(reinterpret_cast<void*>(kStream), kLaunchFailure,
                                 host_function_data(number));
  EXPECT_EQ(call.calls, 1);
  EXPECT_EQ(call.status, kLaunchFailure);
  EXPECT_EQ(call.stream, reinterpret_cast<void*>(kStream));
  EXPECT_FALSE(finished(before));
  const uint32_t well = wrap(reinterpret_cast<void*>(&with_status), call);
  call_host_function_with_status(nullptr, 0, host_function_data(well));
  EXPECT_TRUE(finished(before));
}

// Each launch of the graph would call it.
TEST_F(HostFunctions, CapturedOnesArePassedOn) {
  Call call;
  g_capture_status = 1;
  EXPECT_EQ(wrap_plain(call), 0u);
  g_capture_status = 0;
  g_capture_answer = 906;  // the legacy stream, while another one is being captured
  EXPECT_EQ(wrap_plain(call), 0u);
  host_functions_may_ask(nullptr);
  EXPECT_EQ(wrap_plain(call), 0u);
  EXPECT_EQ(wrap(nullptr, call), 0u);
}

TEST_F(HostFunctions, MoreThanThereIsRoomForAreCountedAndPassedOn) {
  Call call;
  uint32_t numbers[kRoom];
  for (uint32_t& number : numbers) {
    number = wrap_plain(call);
    EXPECT_NE(number, 0u);
  }
  EXPECT_EQ(wrap_plain(call), 0u);
  EXPECT_EQ(world_.stat(format::Stat::HostFunctionsFull), 1u);
  call_host_function(host_function_data(numbers[2]));
  EXPECT_EQ(wrap_plain(call), numbers[2]);
}

TEST_F(HostFunctions, RefusedOnesGiveTheirPlaceBack) {
  constexpr int kInvalidHandle = 400;
  Call call;
  for (uint32_t i = 0; i < 3 * kRoom; ++i) {
    const uint32_t number = wrap_plain(call);
    ASSERT_NE(number, 0u);
    host_function_enqueued(number, kInvalidHandle);
    EXPECT_EQ(element(number).function, 0u);
  }
}

// The error may be that of earlier work: then the function might be called after all.
TEST_F(HostFunctions, OnesOfWhichNothingIsSureKeepTheirPlace) {
  constexpr int kIllegalAddress = 700;
  Call first;
  const uint32_t kept = wrap_plain(first);
  host_function_enqueued(kept, kIllegalAddress);
  Call other;
  for (uint32_t i = 0; i < kRoom; ++i) {
    EXPECT_NE(wrap_plain(other), kept);
  }
  call_host_function(host_function_data(kept));
  EXPECT_EQ(first.calls, 1);
  EXPECT_EQ(other.calls, 0);
}

// What comes back from a function in a child that was forked inside it.
TEST_F(HostFunctions, AnotherProcessLeavesTheTraceAlone) {
  struct Fork {
    static void body(void*) { g_guard.words.armed = 0; }
  };
  Call call;
  const uint32_t number = wrap(reinterpret_cast<void*>(&Fork::body), call);
  call_host_function(host_function_data(number));
  g_guard.words.armed = 1;
  EXPECT_NE(element(number).entered_ticks, 0u);
  EXPECT_EQ(element(number).left_ticks, 0u);
}

// Whoever calls it may catch what it throws: the stream goes on.
TEST_F(HostFunctions, ThatThrowHaveLeft) {
  const auto throws = [](void*) { throw 7; };
  Call call;
  const uint32_t number = wrap(reinterpret_cast<void*>(static_cast<void (*)(void*)>(throws)), call);
  ASSERT_NE(number, 0u);
  EXPECT_THROW(call_host_function(host_function_data(number)), int);
  EXPECT_NE(element(number).entered_ticks, 0u);
  EXPECT_NE(element(number).left_ticks, 0u);
}

}  // namespace
}  // namespace traintrace
