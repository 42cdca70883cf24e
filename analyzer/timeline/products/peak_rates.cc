#include "analyzer/timeline/products/peak_rates.h"

#include <algorithm>
#include <array>

namespace traintrace {
namespace {

struct Row {
  std::string_view name;  // the longest one that fits holds
  DeviceRates peaks;
};

// From NVIDIA's data sheets of each product ("NVIDIA A100 Tensor Core GPU" and so on); where one
// gives figures with sparsity only, half of them.  Memory: of the variant with the slowest one.
// Columns: fp64, fp32, tf32, half, bfloat16, fp8, int8, memory.
constexpr Row kRows[] = {
    {"V100-SXM2", {7'800, 15'700, 0, 125'000, 0, 0, 0, 900}},
    {"V100-SXM3", {7'800, 15'700, 0, 125'000, 0, 0, 0, 900}},
    {"V100-PCIE", {7'000, 14'000, 0, 112'000, 0, 0, 0, 900}},
    {"T4", {0, 8'100, 0, 65'000, 0, 0, 130'000, 300}},
    {"A100", {19'500, 19'500, 156'000, 312'000, 312'000, 0, 624'000, 1'555}},
    {"A30", {10'300, 10'300, 82'000, 165'000, 165'000, 0, 330'000, 933}},
    {"A40", {0, 37'400, 74'800, 149'700, 149'700, 0, 299'300, 696}},
    {"A10", {0, 31'200, 62'500, 125'000, 125'000, 0, 250'000, 600}},
    {"L4", {0, 30'300, 60'000, 121'000, 121'000, 242'000, 242'000, 300}},
    {"L40", {0, 90'500, 90'500, 181'000, 181'000, 362'000, 362'000, 864}},
    {"L40S", {0, 91'600, 183'000, 362'000, 362'000, 733'000, 733'000, 864}},
    {"H100 80GB HBM3", {67'000, 67'000, 494'500, 989'500, 989'500, 1979'000, 1979'000, 3'350}},
    {"H100 PCIe", {51'000, 51'000, 378'000, 756'500, 756'500, 1513'000, 1513'000, 2'000}},
    {"H100 NVL", {60'000, 60'000, 417'500, 835'500, 835'500, 1670'500, 1670'500, 3'900}},
    {"H200", {67'000, 67'000, 494'500, 989'500, 989'500, 1979'000, 1979'000, 4'800}},
    {"H200 NVL", {60'000, 60'000, 417'500, 835'500, 835'500, 1670'500, 1670'500, 4'800}},
    {"B200", {37'000, 75'000, 1100'000, 2250'000, 2250'000, 4500'000, 4500'000, 7'700}},
};

bool ends_word(std::string_view name, size_t at) {
  return at >= name.size() || name[at] == ' ' || name[at] == '-';
}

// "A100" in "NVIDIA A100-SXM4-80GB", and not in "A100X" or "GA100".
bool names(std::string_view device, std::string_view row) {
  const size_t at = device.find(row);
  return at != device.npos && (at == 0 || device[at - 1] == ' ') &&
         ends_word(device, at + row.size());
}

// A part of a GPU: "MIG 3g.20gb", or of a virtual one, "A40-48Q".
bool is_part(std::string_view device) {
  const bool is_virtual = device.size() > 1 &&
                          std::string_view("QCAB").find(device.back()) != std::string_view::npos &&
                          device[device.size() - 2] >= '0' && device[device.size() - 2] <= '9';
  return is_virtual || device.starts_with("GRID") || device.find(" MIG ") != device.npos;
}

}  // namespace

const DeviceRates* peaks_of(std::string_view device_name) {
  const Row* best = nullptr;
  if (is_part(device_name)) {
    return nullptr;
  }
  for (const Row& row : kRows) {
    if (names(device_name, row.name) && (best == nullptr || row.name.size() > best->name.size())) {
      best = &row;
    }
  }
  return best == nullptr ? nullptr : &best->peaks;
}

double peak_of(const DeviceRates& peaks, ElementType type, bool tensor_cores) {
  switch (type) {
    case ElementType::kUnknown:
      return 0;
    case ElementType::kDouble:
      return peaks.fp64;
    case ElementType::kSingle:
      return tensor_cores ? peaks.tf32 : peaks.fp32;
    case ElementType::kHalf:
      return peaks.half;
    case ElementType::kBfloat16:
      return peaks.bfloat16;
    case ElementType::kFp8:
      return peaks.fp8;
    case ElementType::kInt8:
      return peaks.int8;
  }
  return 0;
}

}  // namespace traintrace
