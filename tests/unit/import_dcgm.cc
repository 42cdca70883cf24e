// What DCGM's tools record, and the same damaged.  Forms: dcgmi/DeviceMonitor.cpp of NVIDIA/DCGM,
// dcgm-exporter's README, Prometheus' documentation of /api/v1/query_range.
// uses: analyzer
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analyzer/importers/logs/dcgm_fields.h"
#include "analyzer/importers/logs/gpu_logs.h"

namespace traintrace {
namespace {

std::string error_text(const ReadError& error) {
  return fmt::format("{}: {}", error.offset, error.message);
}

std::string dmon(std::string_view text, const std::string& host = "node7") {
  const Result<std::string> telemetry = telemetry_of_dcgmi_dmon(text, "dmon.txt", host);
  return telemetry ? *telemetry : error_text(telemetry.error());
}

std::string range(std::string_view text, const std::string& host = "") {
  const Result<std::vector<std::string>> texts = telemetry_of_prometheus(text, "range.json", host);
  return texts ? fmt::format("{}", fmt::join(*texts, "--\n")) : error_text(texts.error());
}

constexpr const char* kDiscovery =
    "2 GPUs found.\n"
    "+--------+----------------------------------------------------------------------+\n"
    "| GPU ID | Device Information                                                   |\n"
    "+--------+----------------------------------------------------------------------+\n"
    "| 0      | Name: NVIDIA H100 80GB HBM3                                          |\n"
    "|        | PCI Bus ID: 00000000:1B:00.0                                         |\n"
    "|        | Device UUID: GPU-1                                                   |\n"
    "+--------+----------------------------------------------------------------------+\n"
    "| 1      | Name: NVIDIA H100 80GB HBM3                                          |\n"
    "|        | PCI Bus ID: 00000000:43:00.0                                         |\n"
    "|        | Device UUID: GPU-2                                                   |\n"
    "+--------+----------------------------------------------------------------------+\n"
    "1 CPUs found.\n"
    "| 0      | Name: Grace                                                          |\n";
constexpr const char* kHeader =
    "2026-11-26T05:09:59.000000+0000 #Entity   SMCLK      POWER      FBUSD    XIDER   GPUTL\n"
    "2026-11-26T05:09:59.000000+0000 ID                   W                           \n";
constexpr const char* kRow =
    "2026-11-26T05:10:00.250000+0000 GPU 1     1980       450.120    512      N/A     99\n";

TEST(ImportDcgm, DmonWithTimesBehindDiscovery) {
  EXPECT_EQ(dmon(std::string(kDiscovery) + kHeader + kRow +
                 "2026-11-26T05:10:00.250000+0000 GPU 0  N/A  700.000  1  79  99\n"
                 "2026-11-26T05:10:00.250000+0000 GPU_I 0  1980  N/A  1  79  99\n" +
                 kHeader + "2026-11-26T06:10:01+0100 GPU 1  1410  700.000  1  79  99\n" +
                 "2026-11-26T05:10:02+0000 GPU 1  1410  700.000  1  79  99\n" +
                 "2026-11-26T05:10:01+0000 GPU 1  14"),
            "traintrace-telemetry 1\nfact source dcgmi-dmon\nfact host node7\n"
            "device 0 uuid=GPU-2 pci=0000:43:00.0 name=\"NVIDIA H100 80GB HBM3\"\n"
            "read 0 1795669800250000000 sm_mhz=1980 power_mw=450120 memory_used_bytes=536870912\n"
            "device 1 uuid=GPU-1 pci=0000:1b:00.0 name=\"NVIDIA H100 80GB HBM3\"\n"
            // 79 from the beginning: it may be of a job before.
            "read 1 1795669800250000000 power_mw=700000 memory_used_bytes=1048576\n"
            "read 0 1795669801000000000 sm_mhz=1410 power_mw=700000 memory_used_bytes=1048576\n"
            "xid 0 1795669801000000000 79\n"
            "read 0 1795669802000000000 sm_mhz=1410 power_mw=700000 memory_used_bytes=1048576\n");
}

TEST(ImportDcgm, DmonThatIsDamagedIsRefusedByLine) {
  const std::string head = std::string(kDiscovery) + kHeader;  // 16 lines
  const std::string form =
      "expected lines of dcgmi dmon, #Entity and then GPU 0 .., after those of dcgmi discovery -l";
  EXPECT_EQ(dmon(""), "1: " + form);
  EXPECT_EQ(dmon(kDiscovery), "14: " + form);
  EXPECT_EQ(dmon(std::string(kDiscovery) + kRow), "15: " + form);  // no header
  EXPECT_EQ(dmon(head + "no such field\n"), "17: " + form);
  EXPECT_EQ(dmon(head + "GPU 1  1980  450.1  512  N/A  99\n"),
            "17: expected a time before it such as 2026-11-26T05:10:00+00:00: dcgmi dmon .. | ts "
            "'%FT%.T%z'");
  EXPECT_EQ(dmon(head + kRow + "2026-11-26T05:10:01+0000 GPU 1  1980  450.1\n"),
            "18: expected 5 values, as in the header");
  EXPECT_EQ(dmon(head + "2026-11-26T05:10:01+0000 GPU 1  fast  450.1  512  0  99\n"),
            "17: expected a number for SMCLK");
  EXPECT_EQ(dmon(head + "2026-11-26T05:10:01+0000 GPU 1  1980  -450.1  512  0  99\n"),
            "17: expected a number for POWER");
  // Numbers of GPUs alone say nothing: those of DCGM are not those of the job.
  EXPECT_EQ(dmon(std::string(kHeader) + kRow),
            "3: expected the UUID of GPU 1 in the lines before: dcgmi discovery -l first, into the "
            "same file");
}

std::string series(const std::string& name, const std::string& labels, const std::string& values) {
  return fmt::format(R"({{"metric":{{"__name__":"{}",{}}},"values":[{}]}})", name, labels, values);
}

std::string answer(const std::string& result) {
  return R"({"status":"success","data":{"resultType":"matrix","result":[)" + result + "]}}";
}

constexpr const char* kGpu1 =
    R"("UUID":"GPU-1","gpu":"0","pci_bus_id":"00000000:1B:00.0","Hostname":"node7","modelName":"H100")";

TEST(ImportDcgm, RangeOfPrometheus) {
  EXPECT_EQ(
      range(answer(
          series("DCGM_FI_DEV_SM_CLOCK", kGpu1,
                 R"([1795669800.25,"1980"],[1795669810.25,"1410"])") +
          "," +
          series("DCGM_FI_DEV_POWER_USAGE", kGpu1,
                 R"([1795669800.25,"450.12"],[1795669810.25,"NaN"])") +
          "," +
          series("DCGM_FI_DEV_XID_ERRORS", kGpu1, R"([1795669800.25,"0"],[1795669810.25,"79"])") +
          "," + series("DCGM_FI_DEV_GPU_UTIL", kGpu1, R"([1795669800.25,"99"])") + "," +
          series("DCGM_FI_DEV_SM_CLOCK", std::string(R"("GPU_I_ID":"3",)") + kGpu1,
                 R"([1795669800.25,"7"])") +
          "," +
          series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", R"("UUID":"GPU-9","Hostname":"node8")",
                 R"([1795669800,"5"],[1795669801,"9223372036854775794"])"))),
      "traintrace-telemetry 1\nfact source prometheus\nfact host node7\n"
      "device 0 uuid=GPU-1 pci=0000:1b:00.0 name=H100\n"
      "read 0 1795669800250000000 sm_mhz=1980 power_mw=450120\n"
      "read 0 1795669810250000000 sm_mhz=1410\n"
      "xid 0 1795669810250000000 79\n"
      "--\n"
      "traintrace-telemetry 1\nfact source prometheus\nfact host node8\n"
      "device 0 uuid=GPU-9\n"
      "read 0 1795669800000000000 energy_mj=5\n");
}

TEST(ImportDcgm, RangesThatAreDamagedAreRefused) {
  const std::string query =
      "0: expected the answer to a range query: .../api/v1/query_range?query=..";
  EXPECT_EQ(range("{}"), query);
  EXPECT_EQ(range(R"({"status":"success","data":{"resultType":"vector","result":[]}})"), query);
  EXPECT_EQ(range(answer("")), "0: expected series of dcgm-exporter: DCGM_FI_DEV_..{UUID=..}");
  const std::string good = answer(series("DCGM_FI_DEV_SM_CLOCK", kGpu1, R"([1795669800,"7"])"));
  EXPECT_EQ(range(good.substr(0, 100)), "101: expected more: the JSON is cut off");
  std::string broken = good;
  broken[10] = '#';
  EXPECT_EQ(range(broken), "11: expected JSON");
  EXPECT_EQ(range(answer("{}")), "0: expected metric and values in series 1");
  EXPECT_EQ(range(answer(series("DCGM_FI_DEV_SM_CLOCK", kGpu1, R"([1795669800,"7"])") + "," +
                         series("DCGM_FI_DEV_SM_CLOCK", R"("gpu":"0")", R"([1795669800,"7"])"))),
            "0: expected the label UUID in series 2");
  const auto of = [](const char* sample) {
    return range(answer(series("DCGM_FI_DEV_SM_CLOCK", kGpu1, sample)));
  };
  const std::string samples = "0: expected samples such as [1795669800.25, \"32\"] in series 1";
  EXPECT_EQ(of("7"), samples);
  EXPECT_EQ(of(R"(["then","7"])"), samples);
  EXPECT_EQ(of(R"([1795669800000,"7"])"), samples);  // ms
  EXPECT_EQ(of(R"([18446744073709551615,"7"])"), samples);
  EXPECT_EQ(of(R"([1795669800,"seven"])"), "0: expected numbers as values in series 1");
  EXPECT_EQ(of(R"([1795669800,7])"), "0: expected numbers as values in series 1");
  EXPECT_EQ(of(R"([1795669800,"1e19"])"), "0: expected numbers as values in series 1");
}

TEST(ImportDcgm, AByteOrderMarkSaysNothing) {
  const std::string text = answer(series("DCGM_FI_DEV_SM_CLOCK", kGpu1, R"([1795669800,"7"])"));
  EXPECT_EQ(range("\xEF\xBB\xBF" + text), range(text));
}

TEST(ImportDcgm, AnXidIsOneThatWasSeenToCome) {
  DcgmXids xids;
  EXPECT_EQ(xids.take(79), std::nullopt);  // of whenever
  EXPECT_EQ(xids.take(79), std::nullopt);
  EXPECT_EQ(xids.take(std::nullopt), std::nullopt);  // DCGM was started again
  EXPECT_EQ(xids.take(79), 79);
  EXPECT_EQ(xids.take(31), 31);
  EXPECT_EQ(xids.take(0), std::nullopt);
}

}  // namespace
}  // namespace traintrace
