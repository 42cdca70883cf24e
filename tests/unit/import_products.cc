// uses: analyzer
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "analyzer/exporters/kineto.h"
#include "analyzer/importers/kineto/kineto.h"
#include "analyzer/timeline/products/products.h"

namespace traintrace {
namespace {

// A profile of one host thread, event by event.
class ImportProducts : public ::testing::Test {
 protected:
  ImportProducts() { std::filesystem::create_directory(folder_); }
  ~ImportProducts() override { std::filesystem::remove_all(folder_); }

  void add(const std::string& category, const std::string& name, int begin, int end,
           const std::string& arguments, int thread = 5) {
    events_ += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})",
        events_.empty() ? "" : ",\n", category, name, thread, begin, end - begin, arguments);
  }
  void operate(const std::string& name, int begin, int end, const std::string& dims,
               const std::string& types = R"(["float", "float"])") {
    add("cpu_op", name, begin, end,
        dims.empty() ? "" : fmt::format(R"("Input Dims": {}, "Input type": {})", dims, types));
  }
  // A kernel that is launched then, and runs much later.
  void launch(int time, int correlation, int length = 10, const std::string& kernel = "sgemm",
              int thread = 5) {
    const std::string arguments = fmt::format(R"("correlation": {})", correlation);
    add("cuda_runtime", "cudaLaunchKernel", time, time + 1, arguments, thread);
    add("kernel", kernel, 1000 + time * 20, 1000 + time * 20 + length,
        arguments + R"(, "device": 0, "stream": 7)", 7);
  }
  Timeline read(const std::string& text) {
    const std::string path = folder_ / "trace.json";
    std::ofstream(path, std::ios::binary) << text;
    KinetoTrace trace = read_kineto(path);
    EXPECT_TRUE(trace.errors.empty());
    return std::move(trace.timeline);
  }
  Timeline read() { return read(R"({"traceEvents": [)" + events_ + "]}"); }
  // "correlation: shape"
  static std::vector<std::string> texts(const Timeline& timeline) {
    std::vector<std::string> result;
    for (const WorkProduct& work : timeline.work_products) {
      const MatrixProduct& product = timeline.products[work.product];
      result.push_back(fmt::format("{}: {}", work.correlation,
                                   !product.is_plain    ? "part"
                                   : product.batch == 0 ? "not known"
                                                        : shape_text(product)));
    }
    return result;
  }

  std::string events_;
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("import_products." + std::to_string(getpid()));
};

using Texts = std::vector<std::string>;

TEST_F(ImportProducts, TakesTheOperandsOfEachOperator) {
  operate("aten::mm", 0, 10, "[[2, 3], [3, 4]]");
  launch(1, 1);
  operate("aten::addmm", 10, 20, "[[4], [5, 6], [6, 4], [], []]",
          R"(["float", "c10::Half", "c10::Half", "Scalar", "Scalar"])");
  launch(11, 2);
  operate("aten::bmm", 20, 30, "[[7, 2, 3], [7, 3, 4]]", R"(["c10::BFloat16", "c10::BFloat16"])");
  launch(21, 3);
  operate("aten::baddbmm", 30, 40, "[[7, 2, 4], [7, 2, 3], [7, 3, 4], [], []]",
          R"(["double", "double", "double", "", ""])");
  launch(31, 4);
  operate("aten::_scaled_mm", 40, 50, "[[16, 32],[32, 8],[],[]]",
          R"(["c10::Float8_e4m3fn","c10::Float8_e5m2","float","float"])");
  launch(41, 5);
  EXPECT_EQ(texts(read()),
            (Texts{"1: [2, 3] x [3, 4] of float", "2: [5, 6] x [6, 4] of half",
                   "3: 7 x [2, 3] x [3, 4] of bfloat16", "4: 7 x [2, 3] x [3, 4] of double",
                   "5: [16, 32] x [32, 8] of float8"}));
}

TEST_F(ImportProducts, CountsNestedOperatorsOnce) {
  operate("aten::linear", 0, 100, "[[5, 6], [4, 6], [4]]", R"(["float", "float", "float"])");
  operate("aten::addmm", 10, 90, "[[4], [5, 6], [6, 4]]", R"(["float", "float", "float"])");
  launch(20, 1);
  // Autocast: what the outer one launches by itself casts; the inner one multiplies.
  operate("aten::mm", 100, 200, "[[2, 3], [3, 4]]");
  launch(110, 2, 500, "cast");
  operate("aten::mm", 150, 190, "[[2, 3], [3, 4]]", R"(["c10::Half", "c10::Half"])");
  launch(160, 3);
  EXPECT_EQ(texts(read()), (Texts{"1: [5, 6] x [6, 4] of float", "3: [2, 3] x [3, 4] of half"}));
}

TEST_F(ImportProducts, ChoosesTheKernelThatMultiplies) {
  operate("aten::addmm", 0, 50, "[[4], [5, 6], [6, 4]]", R"(["float", "float", "float"])");
  launch(10, 1, 300, "elementwise");
  launch(20, 2, 100, "ampere_sgemm_128x64_tn");
  launch(30, 3, 200, "splitKreduce_kernel");
  operate("aten::mm", 50, 90, "[[2, 3], [3, 4]]");
  launch(60, 4, 100, "mine_short");
  launch(70, 5, 200, "mine");
  EXPECT_EQ(texts(read()), (Texts{"2: [5, 6] x [6, 4] of float", "5: [2, 3] x [3, 4] of float"}));
}

TEST_F(ImportProducts, SaysWhatIsNotKnown) {
  const struct {
    std::string dims, types;
  } wrong[] = {
      {"", ""},
      {"[]", R"(["float", "float"])"},
      {"[[2, 3], [4, 5]]", R"(["float", "float"])"},
      {"[[2, 3]]", R"(["float", "float"])"},
      {"[[2, 3], []]", R"(["float", "float"])"},
      {"[[1, 2, 3, 4], [1, 2, 4, 5]]", R"(["float", "float"])"},
      {"[[2, 3, 4], [5, 4, 6]]", R"(["float", "float"])"},
      {"[[2, -3], [-3, 4]]", R"(["float", "float"])"},
      {"[[2, 99999999999999999999], [99999999999999999999, 4]]", R"(["float", "float"])"},
      {R"([["a", "b"], ["b", "c"]])", R"(["float", "float"])"},
      {R"("[[2, 3], [3, 4]]")", R"(["float", "float"])"},
  };
  int time = 0;
  for (const auto& each : wrong) {
    operate("aten::mm", time, time + 10, each.dims, each.types);
    launch(time + 2, time + 1);
    time += 10;
  }
  operate("aten::mm", time, time + 10, "[[2, 3], [3, 4]]", R"(["float", "double"])");
  launch(time + 2, 1000);
  operate("aten::mm", time + 10, time + 20, "[[2, 3], [3, 4]]",
          R"(["c10::complex<float>", "c10::complex<float>"])");
  launch(time + 12, 1001);
  const Timeline timeline = read();
  ASSERT_EQ(timeline.work_products.size(), std::size(wrong) + 2);
  for (const WorkProduct& work : timeline.work_products) {
    const MatrixProduct& product = timeline.products[work.product];
    EXPECT_FALSE(flops_of(product)) << work.correlation;
    EXPECT_EQ(product.batch == 0, work.correlation < 1000) << work.correlation;
  }
}

TEST_F(ImportProducts, LeavesOutWhatDoesNotRunOnTheGpu) {
  operate("aten::mm", 0, 10, "[[2, 3], [3, 4]]");  // of the CPU
  launch(4, 1, 10, "sgemm", 6);                    // by another thread
  operate("aten::mm", 10, 20, "[[2, 3], [3, 4]]");
  add("cuda_runtime", "cudaLaunchKernel", 12, 13, R"("correlation": 2)");  // captured
  operate("aten::cudnn_convolution", 20, 30, "[[1, 2, 3, 3], [4, 2, 3, 3]]");
  launch(22, 3);
  launch(32, 4);
  EXPECT_EQ(texts(read()), Texts{"3: part"});
}

TEST_F(ImportProducts, AreExportedWithTheGpus) {
  operate("aten::bmm", 0, 10, "[[7, 2, 3], [7, 3, 4]]");
  launch(1, 1);
  operate("aten::mm", 10, 20, "");
  launch(11, 2);
  operate("aten::conv2d", 20, 30, "");
  launch(21, 3);
  const Timeline timeline = read(
      R"({"deviceProperties": [{"id": 0, "name": "NVIDIA \"L4\"", "computeMajor": 8, "computeMinor": 9},
 {"name": "no number"}, {"id": 2, "name": 7, "computeMajor": "x"}, 5], "traceEvents": [)" +
      events_ + "]}");
  EXPECT_EQ(texts(timeline), (Texts{"1: 7 x [2, 3] x [3, 4] of float", "2: not known", "3: part"}));
  ASSERT_EQ(timeline.models.size(), 2U);
  EXPECT_EQ(model_of(timeline, 0)->name, "NVIDIA \"L4\"");
  EXPECT_EQ(model_of(timeline, 0)->major, 8);
  EXPECT_EQ(model_of(timeline, 0)->minor, 9);
  EXPECT_EQ(model_of(timeline, 2)->major, 0);
  EXPECT_EQ(model_of(timeline, 1), nullptr);
  const Timeline again = read(kineto_trace(timeline));
  EXPECT_EQ(texts(again), texts(timeline));
  ASSERT_EQ(again.models.size(), 2U);
  EXPECT_EQ(again.models[0].name, timeline.models[0].name);
  EXPECT_EQ(again.models[0].minor, timeline.models[0].minor);
}

TEST_F(ImportProducts, BearsWhatOthersWriteIntoOurWords) {
  for (const char* told :
       {"", "x", "float", "float 1", "float 1 2 3", "float 1 2 x 4", "float  1 2",
        "float 1 2 3 4 5", "part 1 2 3 4", "float -1 2 3 4", " "}) {
    add("kernel", "k", 0, 10, fmt::format(R"("correlation": 1, "traintrace product": "{}")", told));
  }
  for (const MatrixProduct& product : read().products) {
    EXPECT_EQ(flops_of(product).value_or(48), 48);
  }
}

}  // namespace
}  // namespace traintrace
