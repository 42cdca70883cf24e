// uses: analyzer
// What streams are told to wait for by events, from records of calls.
#include "analyzer/model/waiting/stream_order.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>

namespace traintrace {
namespace {

constexpr uint64_t kMain = 0x10, kSide = 0x20, kThird = 0x30;
constexpr uint64_t kEvent = 0xe;

enum : uint32_t {
  kRecord,
  kWait,
  kCreate,
  kBeginCapture,
  kEndCapture,
  kGroupStart,
  kGroupEnd,
  kSum
};

// Calls of one process, in the order of their times.
class Calls {
 public:
  Calls() {
    const FieldSchema event = {"event", "event", false}, stream = {"stream", "stream", false};
    trace_.calls = {{"cudaEventRecord", "runtime", "record", {event, stream}},
                    {"cudaStreamWaitEvent", "runtime", "wait", {event, stream}},
                    {"cudaEventCreate", "runtime", "create", {event}},
                    {"cudaStreamBeginCapture", "runtime", "capture", {event, stream}},
                    {"cudaStreamEndCapture", "runtime", "capture", {event, stream}},
                    {"ncclGroupStart", "nccl", "group-start", {}},
                    {"ncclGroupEnd", "nccl", "group-end", {}},
                    {"ncclAllReduce", "nccl", "collective", {}}};
  }

  // `lasts` 0: it does not return.
  Calls& call(uint32_t call, TimeNs enter, TimeNs lasts, uint64_t event = 0, uint64_t stream = 0,
              uint32_t thread = 1) {
    CallRecord record;
    record.thread = thread;
    record.call = call;
    record.enter = enter;
    record.leave = lasts == 0 ? 0 : enter + lasts;
    record.returned = lasts != 0;
    record.first_value = static_cast<uint32_t>(trace_.values.size());
    record.value_count = static_cast<uint8_t>(trace_.calls[call].fields.size());
    const uint64_t values[] = {event, stream};
    trace_.values.insert(trace_.values.end(), values, values + record.value_count);
    trace_.events.push_back(record);
    return *this;
  }
  Calls& record(TimeNs at, uint64_t stream, uint32_t thread = 1) {
    return call(kRecord, at, 1, kEvent, stream, thread);
  }
  Calls& wait(TimeNs at, uint64_t stream) { return call(kWait, at, 1, kEvent, stream); }

  // Up to when what was put on `before` comes before what is put on `then` from now on.
  std::optional<TimeNs> until(uint64_t before, uint64_t then) const {
    const StreamOrder order = stream_order_of(trace_, 0);
    const auto told = order.told.find({then, -1});
    if (told == order.told.end()) {
      return std::nullopt;
    }
    const auto found = told->second.back().before.find({before, -1});
    return found == told->second.back().before.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  ProcessTrace trace_;
};

TEST(StreamOrder, UpToTheRecord) {
  EXPECT_EQ(Calls().record(10, kSide).wait(20, kMain).until(kSide, kMain), 10);
  EXPECT_EQ(Calls().record(10, kSide).wait(20, kMain).until(kMain, kSide), std::nullopt);
  EXPECT_EQ(Calls().wait(10, kMain).record(20, kSide).until(kSide, kMain), std::nullopt);
}

TEST(StreamOrder, IsHandedOn) {
  const Calls calls = Calls().record(10, kThird).wait(20, kSide).record(30, kSide).wait(40, kMain);
  EXPECT_EQ(calls.until(kThird, kMain), 10);
  EXPECT_EQ(calls.until(kSide, kMain), 30);
}

TEST(StreamOrder, OfTheLastRecordOfAnEvent) {
  EXPECT_EQ(Calls().record(10, kSide).record(20, kThird).wait(30, kMain).until(kSide, kMain),
            std::nullopt);
  EXPECT_EQ(
      Calls().record(10, kSide).call(kCreate, 20, 1, kEvent).wait(30, kMain).until(kSide, kMain),
      std::nullopt);
}

TEST(StreamOrder, NotInsideACapture) {
  EXPECT_EQ(Calls()
                .call(kBeginCapture, 10, 1, 0, kSide)
                .record(20, kSide)
                .wait(30, kMain)
                .until(kSide, kMain),
            std::nullopt);
  EXPECT_EQ(Calls()
                .call(kBeginCapture, 10, 1, 0, kSide)
                .call(kEndCapture, 20, 1, 0, kSide)
                .record(30, kSide)
                .wait(40, kMain)
                .until(kSide, kMain),
            30);
}

// What a group issues is put on the streams at its end, whatever was called in it before.
TEST(StreamOrder, WhatAGroupIssuesComesBehindWhatIsRecordedInIt) {
  EXPECT_EQ(Calls()
                .call(kGroupStart, 10, 1)
                .call(kSum, 12, 1)
                .record(14, kSide)
                .call(kGroupEnd, 16, 2)
                .wait(20, kMain)
                .until(kSide, kMain),
            10);
  EXPECT_EQ(Calls()
                .call(kGroupStart, 10, 1)
                .call(kSum, 12, 1)
                .call(kGroupEnd, 14, 2)
                .record(17, kSide)
                .wait(20, kMain)
                .until(kSide, kMain),
            17);
}

TEST(StreamOrder, NestedGroupsIssueAtTheOutermostEnd) {
  const auto calls = [] {
    return Calls().call(kGroupStart, 10, 1).call(kGroupStart, 12, 1).call(kGroupEnd, 14, 1);
  };
  EXPECT_EQ(calls().record(16, kSide).wait(20, kMain).until(kSide, kMain), 10);
  EXPECT_EQ(calls().call(kGroupEnd, 16, 1).record(18, kSide).wait(20, kMain).until(kSide, kMain),
            18);
}

// NCCL records events itself while it issues.
TEST(StreamOrder, WhatACallIssuesComesBehindWhatIsRecordedInIt) {
  EXPECT_EQ(Calls().call(kSum, 10, 8).record(14, kSide).wait(20, kMain).until(kSide, kMain), 10);
  EXPECT_EQ(Calls().call(kSum, 10, 0).record(14, kSide).wait(20, kMain).until(kSide, kMain), 10);
  EXPECT_EQ(Calls().call(kSum, 10, 0).record(14, kSide, 2).wait(20, kMain).until(kSide, kMain), 14)
      << "of another thread";
}

}  // namespace
}  // namespace traintrace
