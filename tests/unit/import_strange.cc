// uses: analyzer
#include "analyzer/importers/strange_files.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

namespace traintrace {
namespace {

using namespace std::string_literals;

class StrangeFiles : public ::testing::Test {
 protected:
  StrangeFiles() { std::filesystem::create_directory(folder_); }
  ~StrangeFiles() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& bytes) {
    std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("strange_files." + std::to_string(getpid()));
};

TEST_F(StrangeFiles, AreNamed) {
  struct Case {
    const char* name;
    std::string bytes;
    const char* is;
  };
  const std::string elf =
      "\x7f"
      "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"s;
  const Case cases[] = {
      {"report.nsys-rep", "\x01\x02", "a report of Nsight Systems"},
      {"k.ncu-rep", "NVR\0x"s, "a report of Nsight Compute"},
      {"r.sqlite", "SQLite format 3\0 CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL"s,
       "an SQLite export of Nsight Systems"},
      {"r.db", "SQLite format 3\0 CREATE TABLE t"s, "an SQLite database"},
      {"host.xplane.pb", "\x0a\x05", "a profile of JAX or TensorFlow"},
      {"events.out.tfevents.17.h",
       "\x18\0\0\0\0\0\0\0abcd\x1a\x0d"
       "brain.Event:2"s,
       "a log of scalars for TensorBoard"},
      {"run-x.wandb", ":W&B\xbe\xe1\0"s, "a log of Weights & Biases"},
      {"core.17", elf + "\x04\0\x3e\0"s, "a core dump of a process"},
      {"a.out", elf + "\x03\0\x3e\0"s, "a program or a library"},
      {"model.pt", "PK\x03\x04......archive/data.pkl", "a checkpoint that torch.save wrote"},
      {"x.zip", "PK\x03\x04", "a zip archive"},
      {"findings.json", R"({"schema":"traintrace.findings/1"})", "the findings of an analysis"},
      {"i.log", R"({"header":{"rank":0},"coll_perf":{"coll":"AllReduce","coll_sn":7}})",
       "the output of NCCL's Inspector"},
      {"error.json", R"({"message": {"message": "E", "extraInfo": {"timestamp": "1"}}})",
       "the error file of one rank of torchrun"},
      {"dmesg", "[ 1843.3] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n",
       "a kernel log"},
      {"smi.csv", "timestamp, name, memory.used [MiB]\n", "a log of nvidia-smi"},
      {"dmon", "# gpu    pwr  gtemp\n# Idx      W      C\n", "the output of nvidia-smi dmon"},
  };
  for (const Case& each : cases) {
    const std::string text = strange_file_text(file(each.name, each.bytes));
    EXPECT_TRUE(text.starts_with(each.is)) << each.name << ": " << text;
    EXPECT_NE(text.find(": "), std::string::npos) << text;  // what to do
  }
}

TEST_F(StrangeFiles, WhatIsCompressedIsLookedInto) {
  const std::string path = folder_ / "report.sqlite.gz";
  const gzFile zipped = gzopen(path.c_str(), "wb");
  constexpr char kBytes[] = "SQLite format 3\0 CUPTI_ACTIVITY_KIND_KERNEL";
  gzwrite(zipped, kBytes, sizeof kBytes);
  gzclose(zipped);
  EXPECT_TRUE(strange_file_text(path).starts_with(
      "compressed with gzip, an SQLite export of Nsight Systems: "));
}

TEST_F(StrangeFiles, OthersAreNot) {
  for (const std::string& bytes : {""s, "x"s, "{}"s, "PK"s,
                                   "\x7f"
                                   "EL"s,
                                   "process 1 host h\n"s, std::string(100, '\0')}) {
    EXPECT_EQ(strange_file_text(file("x", bytes)), "");
  }
  EXPECT_EQ(strange_file_text(folder_ / "none"), "");
}

TEST_F(StrangeFiles, WhatIsInAFolderInstead) {
  EXPECT_EQ(found_instead_text(folder_, {}), "; it is empty");
  std::filesystem::create_directory(folder_ / "iteration_20");
  EXPECT_EQ(found_instead_text(folder_, {}),
            "; folders in it are not looked into: name them (iteration_20)");
  std::filesystem::create_directory(folder_ / "iteration_10");
  EXPECT_EQ(found_instead_text(folder_, {file("a.txt", "text")}),
            "; folders in it are not looked into: name them (iteration_10, ..)");
  EXPECT_TRUE(found_instead_text(folder_, {file("a.txt", "text"), file("b.nsys-rep", "x")})
                  .starts_with("; b.nsys-rep is a report of Nsight Systems"));
}

TEST_F(StrangeFiles, TracesWithoutGpuWork) {
  struct Case {
    const char* event;
    const char* is;
  };
  const Case cases[] = {
      {R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0 Compute"}})",
       "a trace of JAX or TensorFlow"},
      {R"({"name":"add","ph":"X","ts":1,"dur":2,"tid":0,"pid":"CUDA functions","args":{}})",
       "a trace of torch.autograd.profiler"},
      {R"({"ph":"M","name":"process_name","pid":5,"args":{"name":"Ascend Hardware"}})",
       "a trace of Ascend's NPUs"},
      {R"({"name":"AllReduce","cat":"COLL","ph":"b","id":0,"ts":1,"args":{"CommHash":1}})",
       "a trace of NCCL's example of a profiler plugin"},
      {R"({"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":1})",
       "a profile of the CPU alone"},
  };
  for (const Case& each : cases) {
    const std::string text = strange_profile_text(
        file("trace.json", R"({"traceEvents":[)" + std::string(each.event) + "]}"));
    EXPECT_TRUE(text.starts_with(each.is)) << each.event << ": " << text;
  }
}

}  // namespace
}  // namespace traintrace
