// uses: analyzer
#include "analyzer/timeline/recorded/recorded_products.h"

#include <gtest/gtest.h>

#include <vector>

#include "analyzer/text/schema_text.h"

namespace traintrace {
namespace {

constexpr uint64_t kHalf = 2;
constexpr uint64_t kFp8E4m3 = 28;
constexpr uint64_t kFp8E5m2 = 29;

const MatrixProduct& product_at(const Timeline& timeline, size_t index) {
  return timeline.products[timeline.work_products[index].product];
}

// Calls of the rows of calls.def, and what is launched and runs.
class Recording {
 public:
  Recording() {
    timeline_.names = {"ampere_sgemm_128x64_nn", "splitKreduce_kernel", "elementwise"};
  }

  // `change` is what became of the call otherwise.
  void add(
      const char* name, TimeNs enter, TimeNs leave, std::vector<uint64_t> values,
      uint32_t thread = 1, void (*change)(CallRecord&) = [](CallRecord&) {}) {
    CallRecord event;
    event.thread = thread;
    event.call = static_cast<uint32_t>(trace_.calls.size());
    trace_.calls.push_back(*known_call(name));
    EXPECT_EQ(values.size(), trace_.calls.back().fields.size()) << name;
    event.enter = enter;
    event.leave = leave;
    event.returned = leave != 0;
    event.first_value = static_cast<uint32_t>(trace_.values.size());
    event.value_count = static_cast<uint8_t>(values.size());
    trace_.values.insert(trace_.values.end(), values.begin(), values.end());
    change(event);
    products_.called(trace_, event);
  }
  void launch(TimeNs time, uint64_t correlation, uint32_t thread = 1) {
    products_.launched(thread, time, correlation);
  }
  void work(uint64_t correlation, uint32_t name, int64_t ns) {
    GpuWork work{};
    work.start_ns = static_cast<int64_t>(timeline_.work.size()) * 1'000'000;
    work.end_ns = work.start_ns + ns;
    work.correlation = correlation;
    work.name = name;
    work.kind = WorkKind::kCompute;
    timeline_.work.push_back(work);
  }
  const Timeline& finish() {
    products_.finish(timeline_);
    return timeline_;
  }

 private:
  ProcessTrace trace_;
  Timeline timeline_;
  RecordedProducts products_;
};

TEST(RecordedProducts, HaveTheShapeOfTheCallAroundTheLaunch) {
  Recording recording;
  recording.add("cublasSgemm_v2", 100, 200, {64, 32, 16, 0});
  recording.launch(150, 7);
  recording.launch(250, 8);  // somebody else's
  recording.add("cublasGemmStridedBatchedEx", 300, 400, {8, 9, 10, 12, kHalf, kHalf});
  recording.launch(400, 9);
  for (const uint64_t correlation : {7, 8, 9}) {
    recording.work(correlation, 0, 1000);
  }
  const Timeline& timeline = recording.finish();
  ASSERT_EQ(timeline.work_products.size(), 2u);
  const MatrixProduct* const single = product_of(timeline, 7);
  ASSERT_NE(single, nullptr);
  EXPECT_EQ(shape_text(*single), "[64, 16] x [16, 32] of float");
  EXPECT_TRUE(single->is_plain);
  EXPECT_EQ(product_of(timeline, 8), nullptr);
  ASSERT_NE(product_of(timeline, 9), nullptr);
  EXPECT_EQ(shape_text(*product_of(timeline, 9)), "12 x [8, 10] x [10, 9] of half");
}

// A product in parts is summed up by another kernel, which may take longer.
TEST(RecordedProducts, OfSeveralKernelsTheOneThatMultipliesHasIt) {
  Recording recording;
  recording.add("cublasSgemm_v2", 100, 200, {64, 32, 16, 0});
  recording.launch(120, 1);
  recording.launch(140, 2);
  recording.launch(160, 3);
  recording.work(1, 2, 3000);
  recording.work(2, 0, 1000);
  recording.work(3, 1, 5000);
  const Timeline& timeline = recording.finish();
  ASSERT_EQ(timeline.work_products.size(), 1u);
  EXPECT_EQ(timeline.work_products[0].correlation, 2u);
}

TEST(RecordedProducts, ThreadsAreToldApart) {
  Recording recording;
  recording.add("cublasSgemm_v2", 100, 500, {1, 2, 3, 0}, 1);
  recording.add("cublasDgemm_v2", 110, 500, {4, 5, 6, 1}, 2);
  recording.launch(120, 1, 1);
  recording.launch(130, 2, 2);
  recording.launch(140, 3, 3);
  for (const uint64_t correlation : {1, 2, 3}) {
    recording.work(correlation, 0, 1000);
  }
  const Timeline& timeline = recording.finish();
  ASSERT_EQ(timeline.work_products.size(), 2u);
  EXPECT_EQ(product_at(timeline, 0).m, 1);
  EXPECT_EQ(product_at(timeline, 0).type, ElementType::kSingle);
  EXPECT_EQ(product_at(timeline, 1).m, 4);
  EXPECT_EQ(product_at(timeline, 1).type, ElementType::kDouble);
}

// What failed computed nothing; what was captured, or whose kernel is not there, has no work; and
// of a call whose return was overwritten nobody knows where it ended.
TEST(RecordedProducts, ThoseWithoutWorkAreNone) {
  Recording recording;
  recording.add("cublasSgemm_v2", 100, 200, {1, 2, 3, 0}, 1,
                [](CallRecord& event) { event.result = 13; });
  recording.launch(150, 1);
  recording.work(1, 0, 1000);
  recording.add("cublasSgemm_v2", 300, 400, {1, 2, 3, 0});
  recording.launch(350, 2);
  recording.add("cublasSgemm_v2", 500, 0, {1, 2, 3, 0}, 1,
                [](CallRecord& event) { event.leave_lost = true; });
  recording.launch(550, 3);
  recording.work(3, 0, 1000);
  EXPECT_TRUE(recording.finish().work_products.empty());
}

// The process ended within it.
TEST(RecordedProducts, ThatNeverReturnedHasWhatItLaunched) {
  Recording recording;
  recording.add("cublasSgemm_v2", 100, 0, {1, 2, 3, 0});
  recording.launch(150, 1);
  recording.work(1, 0, 1000);
  EXPECT_EQ(recording.finish().work_products.size(), 1u);
}

struct Typed {
  std::vector<uint64_t> values;
  ElementType type;
  bool has_shape;
};

TEST(RecordedProducts, SaysWhatIsNotKnown) {
  constexpr uint64_t kNoType = ~uint64_t{0};
  const Typed cases[] = {
      {{8, 9, 10, 1, kFp8E4m3, kFp8E5m2}, ElementType::kFp8, true},
      {{8, 9, 10, 1, kHalf, 14}, ElementType::kUnknown, true},
      {{8, 9, 10, 1, 4, 4}, ElementType::kUnknown, true},  // complex
      {{0, 0, 0, 0, kNoType, kNoType}, ElementType::kUnknown, false},
      {{8, static_cast<uint64_t>(-9), 10, 1, kHalf, kHalf}, ElementType::kHalf, false},
  };
  for (const Typed& each : cases) {
    Recording recording;
    recording.add("cublasLtMatmul", 100, 200, each.values);
    recording.launch(150, 1);
    recording.work(1, 0, 1000);
    const Timeline& timeline = recording.finish();
    ASSERT_EQ(timeline.work_products.size(), 1u);
    EXPECT_EQ(product_at(timeline, 0).type, each.type);
    EXPECT_EQ(product_at(timeline, 0).batch != 0, each.has_shape);
    EXPECT_EQ(flops_of(product_at(timeline, 0)).has_value(),
              each.has_shape && each.type != ElementType::kUnknown);
  }
}

TEST(RecordedModels, AreThoseOfTheFacts) {
  ProcessTrace trace;
  trace.facts = {{"gpu-0", "9.0 NVIDIA H100 80GB HBM3"},
                 {"gpu-12", "8.9 NVIDIA L4"},
                 {"gpu-3", "not a number"},
                 {"gpu-4", ""},
                 {"gpu-timeline", "cupti"},
                 {"gpu-progress", "1.5 no GPU"},
                 {"gpt", "1.0 no"}};
  const std::vector<DeviceModel> models = recorded_models(trace);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].device, 0);
  EXPECT_EQ(models[0].major, 9);
  EXPECT_EQ(models[0].minor, 0);
  EXPECT_EQ(models[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(models[1].device, 12);
  EXPECT_EQ(models[1].minor, 9);
}

}  // namespace
}  // namespace traintrace
