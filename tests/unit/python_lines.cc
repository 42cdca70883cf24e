// Line tables as CPython wrote them, and as nobody would.
// uses: analyzer/python_lines.cc
#include "analyzer/python_lines.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace traintrace {
namespace {

std::vector<uint8_t> bytes_of(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

constexpr int kNone = -1;

struct Sample {
  int minor;
  std::string table;
  std::vector<std::pair<int, int>> lines;  // up to this instruction: this line
};

// One function that begins in line 10, compiled by each version: calls over several lines, a gap of
// 200 lines, steps backwards, try and finally.  Tables and lines are what the interpreter itself
// says (co_lines(), 3.9: dis.findlinestarts()).
const Sample samples[] = {
    {9,
     "00010e04020102ff0804027f004a0a01028000b5067f004e020108020c01",
     {{14, 11},
      {16, 15},
      {18, 16},
      {26, 15},
      {28, 19},
      {38, 220},
      {40, 221},
      {46, 18},
      {48, 223},
      {56, 224},
      {68, 226},
      {72, 227}}},
    {10,
     "0e010204020108ff0204007f0a4a0201008106b4007f024e08010402040106ff",
     {{14, 11},
      {16, 15},
      {18, 16},
      {26, 15},
      {28, 19},
      {38, 220},
      {40, 221},
      {46, 18},
      {48, 223},
      {56, 224},
      {60, 226},
      {64, 227},
      {70, 226}}},
    {11,
     "f88000d80915881c881c881c881cf100010906f4000109068041f508000e13d80809f103020e06f4"
     "00020e06f0004f03050af0004f03050a8801f008000d0ef05206001415f000010d118d4189438c43"
     "8843d80c10f057064c030d0a88018801f05a0603050ed80809880189038c038803e00c0d88018801"
     "f8884188018805880588058805d80b0c8048",
     {{2, kNone},
      {4, 10},
      {30, 11},
      {42, 15},
      {44, 16},
      {64, 15},
      {66, 19},
      {98, 220},
      {100, 221},
      {106, 18},
      {108, 223},
      {128, 224},
      {134, 226},
      {136, kNone},
      {148, 226},
      {152, 227}}},
    {12,
     "f88000dc0915f3000109068041f408000e13d80809f303020e06f2004f03050a8801f008000d0ef1"
     "52060014158c418c43d80c10f057064c030d0a8901f0074f03050af0600603050ed908098c03e00c"
     "0d8801d80b0c8048f8f003000d0e8901fa",
     {{2, kNone},
      {4, 10},
      {24, 11},
      {34, 15},
      {36, 16},
      {52, 15},
      {54, 19},
      {78, 220},
      {80, 221},
      {86, 18},
      {88, 15},
      {90, 223},
      {104, 224},
      {108, 226},
      {112, 227},
      {114, kNone},
      {120, 226},
      {126, kNone}}},
    {13,
     "f88000dd0915f3000109068041f408000e13d80809f603020e068801f008000d0ef652060014158c"
     "418c43d80c10f057064c030d0a8a01f107020e06f0600603050ed908098c03e00c0d8801d80b0c80"
     "48f8f003000d0e8901fa",
     {{2, kNone},
      {4, 10},
      {26, 11},
      {36, 15},
      {38, 16},
      {54, 15},
      {56, 19},
      {90, 220},
      {92, 221},
      {100, 18},
      {104, 15},
      {106, 223},
      {120, 224},
      {124, 226},
      {128, 227},
      {130, kNone},
      {136, 226},
      {142, kNone}}},
};

TEST(PythonLines, AreThoseOfTheInterpreter) {
  for (const Sample& sample : samples) {
    const std::vector<uint8_t> table = bytes_of(sample.table);
    int instruction = 0;
    for (const auto& [end, line] : sample.lines) {
      for (; instruction < end; instruction += 2) {
        EXPECT_EQ(python_line(sample.minor, 10, table, instruction).value_or(kNone), line)
            << "3." << sample.minor << " at " << instruction;
      }
    }
  }
}

TEST(PythonLines, BeforeTheFirstInstructionIsTheFirstLine) {
  for (const Sample& sample : samples) {
    EXPECT_EQ(python_line(sample.minor, 10, bytes_of(sample.table), -1), 10);
    EXPECT_EQ(python_line(sample.minor, 10, {}, -2), 10);
  }
}

TEST(PythonLines, BeyondTheTableThereIsNone) {
  for (const Sample& sample : samples) {
    const int end = sample.lines.back().first;
    const auto line = python_line(sample.minor, 10, bytes_of(sample.table), end);
    // 3.9 does not say where the code ends.
    EXPECT_EQ(line.has_value(), sample.minor == 9);
  }
}

TEST(PythonLines, OfFourteenAreWrittenAsThoseOfThirteen) {
  const std::vector<uint8_t> table = bytes_of(samples[4].table);
  for (int instruction = 0; instruction < 150; ++instruction) {
    EXPECT_EQ(python_line(14, 10, table, instruction), python_line(13, 10, table, instruction));
  }
}

TEST(PythonLines, OtherVersionsHaveNone) {
  for (const int minor : {-1, 0, 3, 8, 15, 1000}) {
    EXPECT_EQ(python_line(minor, 10, bytes_of("0001"), 0), std::nullopt);
    EXPECT_EQ(python_line(minor, 10, {}, -1), std::nullopt);
  }
}

TEST(PythonLines, EmptyAndCutTables) {
  EXPECT_EQ(python_line(9, 10, {}, 0), 10);
  EXPECT_EQ(python_line(9, 10, bytes_of("00"), 0), 10);
  EXPECT_EQ(python_line(10, 10, {}, 0), std::nullopt);
  EXPECT_EQ(python_line(10, 10, bytes_of("02"), 0), std::nullopt);
  EXPECT_EQ(python_line(11, 10, {}, 0), std::nullopt);
  // The long form, without what should follow: no step is known.
  EXPECT_EQ(python_line(11, 10, bytes_of("f0"), 0), 10);
  // Not the beginning of an entry.
  EXPECT_EQ(python_line(11, 10, bytes_of("0102"), 0), std::nullopt);
}

TEST(PythonLines, StepsThatNeverEndAreNoLine) {
  std::vector<uint8_t> table(1000, 0x7f);
  table[0] = 0xe8;  // no columns, then a number
  EXPECT_EQ(python_line(11, 10, table, 0), std::nullopt);
  table.back() = 0;
  EXPECT_EQ(python_line(12, 10, table, 0), std::nullopt);
}

TEST(PythonLines, LinesOutOfReachAreNone) {
  std::vector<uint8_t> up;
  for (int i = 0; i < 100000; ++i) {
    up.insert(up.end(), {0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x3f});
  }
  EXPECT_EQ(python_line(13, 10, up, 180000), std::nullopt);
  EXPECT_EQ(python_line(13, 2147483647, up, 0), std::nullopt);
  EXPECT_EQ(python_line(13, -2147483647 - 1, up, -1), std::nullopt);
  std::vector<uint8_t> down;
  for (int i = 0; i < 1000; ++i) {
    down.insert(down.end(), {2, 0x81});
  }
  EXPECT_EQ(python_line(9, 10, down, 1500), std::nullopt);
  EXPECT_EQ(python_line(10, 10, down, 1500), std::nullopt);
}

// Whatever the bytes are, there is an answer, and it is a line or none.
TEST(PythonLines, AnyBytes) {
  std::mt19937 random(20);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> table(random() % 64);
    if (round % 2 == 0) {
      for (uint8_t& byte : table) {
        byte = static_cast<uint8_t>(random());
      }
    } else {
      const Sample& sample = samples[random() % std::size(samples)];
      table = bytes_of(sample.table);
      for (int flips = 0; flips < 3; ++flips) {
        table[random() % table.size()] ^= static_cast<uint8_t>(1 << random() % 8);
      }
      table.resize(random() % table.size());
    }
    const int first_line = static_cast<int>(random());
    const int instruction = static_cast<int>(random() % 4 == 0 ? random() : random() % 200);
    for (int minor = 8; minor < 16; ++minor) {
      const std::optional<int> line = python_line(minor, first_line, table, instruction);
      EXPECT_TRUE(!line || *line >= 0);
      EXPECT_EQ(python_line(minor, first_line, table, instruction), line);
    }
  }
}

}  // namespace
}  // namespace traintrace
