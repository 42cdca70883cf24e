// What sites record of their GPUs anyway, and the same damaged.
// uses: analyzer
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "analyzer/importers/logs/gpu_logs.h"

namespace traintrace {
namespace {

std::string smi(std::string_view text) {
  setenv("TZ", "UTC", 1);
  tzset();
  const Result<std::string> telemetry = telemetry_of_nvidia_smi(text, "smi.csv", "node7");
  return telemetry ? *telemetry
                   : std::to_string(telemetry.error().offset) + ": " + telemetry.error().message;
}

std::string kernel(std::string_view text, const std::string& host = "") {
  const Result<std::string> telemetry = telemetry_of_kernel_log(text, "dmesg", host);
  return telemetry ? *telemetry
                   : std::to_string(telemetry.error().offset) + ": " + telemetry.error().message;
}

constexpr const char* kHeader =
    "timestamp, uuid, pci.bus_id, clocks.current.sm [MHz], power.draw [W], memory.used [MiB], "
    "clocks_event_reasons.active, temperature.memory\n";
constexpr const char* kFirst =
    "2026/11/26 05:10:00.250, GPU-1, 00000000:1B:00.0, 1980 MHz, 450.12 W, 512 MiB, "
    "0x0000000000000004, N/A\n";
constexpr const char* kSecond =
    "2026/11/26 05:10:00.250, GPU-2, 00000000:43:00.0, 1410, 700.00, 1, 0x0000000000000048, "
    "[N/A]\n";

TEST(ImportGpuLogs, NvidiaSmiWithAndWithoutUnits) {
  EXPECT_EQ(smi(std::string(kHeader) + kFirst + kHeader + kSecond + "2026/11/26 05:1"),
            "traintrace-telemetry 1\n"
            "fact source nvidia-smi\n"
            "fact host node7\n"
            "device 0 uuid=GPU-1 pci=0000:1b:00.0\n"
            "read 0 1795669800250000000 sm_mhz=1980 power_mw=450120 memory_used_bytes=536870912 "
            "reasons=4\n"
            "device 1 uuid=GPU-2 pci=0000:43:00.0\n"
            "read 1 1795669800250000000 sm_mhz=1410 power_mw=700000 memory_used_bytes=1048576 "
            "reasons=72\n");
}

TEST(ImportGpuLogs, NvidiaSmiThatIsDamagedIsRefusedByLine) {
  const std::string good = std::string(kHeader) + kFirst;
  const std::string header =
      "1: expected a header with timestamp and uuid: nvidia-smi --query-gpu=timestamp,uuid,.. "
      "--format=csv";
  EXPECT_EQ(smi(""), header);
  EXPECT_EQ(smi("timestamp, index, clocks.sm [MHz]\n"), header);
  EXPECT_EQ(smi(kFirst), header);  // noheader
  EXPECT_EQ(smi(good + "2026/11/26 05:10:01.250, GPU-1\n"),
            "3: expected 8 cells, as in the header");
  std::string row = kFirst;
  row.replace(row.find("1980"), 4, "fast");
  EXPECT_EQ(smi(good + row), "3: expected a number for clocks.current.sm");
  row = kFirst;
  row.replace(0, 10, "26.11.2026");
  EXPECT_EQ(smi(good + row), "3: expected a time such as 2026/11/26 05:10:00.123");
  row = kFirst;
  row.replace(0, 4, "4096");
  EXPECT_EQ(smi(good + row), "3: expected a time such as 2026/11/26 05:10:00.123");
  row = kFirst;
  row.replace(row.find("512 MiB"), 3, "100000000000000");
  EXPECT_EQ(smi(good + row), "3: expected a number for memory.used");
  row = kFirst;
  row.replace(row.find("GPU-1"), 5, "");
  EXPECT_EQ(smi(good + row), "3: expected the UUID of one of up to 64 GPUs");
}

TEST(ImportGpuLogs, AByteOrderMarkSaysNothing) {
  const std::string mark = "\xEF\xBB\xBF";
  const std::string csv = std::string(kHeader) + kFirst;
  EXPECT_EQ(smi(mark + csv), smi(csv));
  const std::string log =
      "2026-11-26T05:10:00+0000 node7 kernel: NVRM: Xid (PCI:0000:9b:00): 79, x\n";
  EXPECT_EQ(kernel(mark + log), kernel(log));
  EXPECT_EQ(smi(mark), smi(""));
  // Elsewhere it is no mark.
  EXPECT_EQ(smi(csv + mark + kFirst), "3: expected a time such as 2026/11/26 05:10:00.123");
  const std::string utf16 = "1: expected UTF-8, and this is UTF-16: iconv -f UTF-16 -t UTF-8";
  EXPECT_EQ(smi(std::string_view("\xFF\xFEt\0i\0", 6)), utf16);
  EXPECT_EQ(kernel(std::string_view("\xFE\xFF\0t", 4)), utf16);
}

TEST(ImportGpuLogs, XidsOfTheKernel) {
  EXPECT_EQ(kernel("2026-11-26T05:10:00,250000+00:00 usb 1-1: new device\n"
                   "2026-11-26T06:10:00,250000+01:00 NVRM: Xid (PCI:0000:9b:00): 79, pid=3005, "
                   "GPU has fallen off the bus.\n",
                   "node7"),
            "traintrace-telemetry 1\nfact source kernel-log\nfact host node7\n"
            "device 0 pci=0000:9b:00.0\nxid 0 1795669800250000000 79\n");
  EXPECT_EQ(kernel("2026-11-26T05:10:00+0000 node7 kernel: NVRM: Xid (PCI:0000:9b:00): 13, x\n"
                   "2026-11-26T05:10:01Z node7 kernel: NVRM: Xid (PCI:0000:1b:00.0): 31"),
            "traintrace-telemetry 1\nfact source kernel-log\nfact host node7\n"
            "device 0 pci=0000:9b:00.0\nxid 0 1795669800000000000 13\n"
            "device 1 pci=0000:1b:00.0\nxid 1 1795669801000000000 31\n");
}

// As rsyslog writes them since Ubuntu 22, with the seconds since the boot, and as dmesg -T does.
TEST(ImportGpuLogs, XidsOfKernLogAndOfDmesgWithNamesOfDays) {
  const std::string found =
      "traintrace-telemetry 1\nfact source kernel-log\nfact host node7\n"
      "device 0 pci=0000:1b:00.0\nxid 0 1712111951";
  EXPECT_EQ(kernel("2024-04-03T02:39:11.123456+00:00 node7 kernel: [ 1843.308145] NVRM: Xid "
                   "(PCI:0000:1b:00): 31, pid=1234, name=python, Ch 00000008\n"),
            found + "123456000 31\n");
  setenv("TZ", "UTC0", 1);
  tzset();
  EXPECT_EQ(kernel("[Wed Apr  3 02:39:11 2024] NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', "
                   "name=<unknown>, GPU has fallen off the bus.\n",
                   "node7"),
            found + "000000000 79\n");
  EXPECT_EQ(kernel("kern  :warn  : [Thu Dec 11 02:39:11 2025] NVRM: Xid (PCI:0000:1b:00): 79, x\n",
                   "node7")
                .substr(0, 20),
            found.substr(0, 20));
  for (const char* time :
       {"[", "[Wed", "[Wed Apx  3 02:39:11 2024]", "[Wed Apr  3 02:39:11 2024", "[Wed Apr 3",
        "[Wed Apr  3 02:39:11 1924]", "[Wed Apr  3 02:39:11 9924]"}) {
    EXPECT_EQ(kernel(std::string(time) + " NVRM: Xid (PCI:0000:1b:00): 79, x\n", "node7")[0], '1')
        << time;
  }
}

TEST(ImportGpuLogs, KernelLogsThatAreDamagedAreRefusedByLine) {
  const std::string time =
      ": expected a time such as 2026-11-26T05:10:00+00:00: dmesg --time-format=iso or -T, "
      "journalctl -k -o short-iso";
  EXPECT_EQ(kernel("\n[ 12.5] NVRM: Xid (PCI:0000:9b:00): 79, x\n", "a"), "2" + time);
  EXPECT_EQ(kernel("2026-11-26T05:10:00 NVRM: Xid (PCI:0000:9b:00): 79, x\n", "a"), "1" + time);
  EXPECT_EQ(kernel("4096-11-26T05:10:00Z NVRM: Xid (PCI:0000:9b:00): 79, x\n", "a"), "1" + time);
  const std::string head = "2026-11-26T05:10:00+00:00 ";
  const std::string xid = "1: expected NVRM: Xid (PCI:0000:1b:00): NUMBER";
  EXPECT_EQ(kernel(head + "NVRM: Xid (PCI:0000:9b): 79, x\n", "a"), xid);
  EXPECT_EQ(kernel(head + "NVRM: Xid (PCI:0000:9b:00): seventy\n", "a"), xid);
  EXPECT_EQ(kernel(head + "NVRM: Xid (PCI:0000:9b:00", "a"), xid);
  EXPECT_EQ(kernel(head + "NVRM: Xid (PCI:0000:9b:00): 79\n"),
            "1: expected the host before `kernel:`; else give --host=NAME");
  EXPECT_EQ(kernel(head + "b kernel: NVRM: Xid (PCI:0000:9b:00): 79\n", "a"),
            "1: expected lines of one host, a");
  EXPECT_EQ(kernel("all is well\n", "a"), "0: expected lines with `NVRM: Xid`: there is none");
}

}  // namespace
}  // namespace traintrace
