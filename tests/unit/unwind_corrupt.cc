// Damaged unwind tables: those of this program and of the C library, copied into a buffer of just
// their size and damaged in many ways.  Nothing may be read outside the buffer (sanitizers see it)
// and every reading must end.
// test: timeout=300
// uses: interpose/record/map_memory.cc
// uses: interpose/stacks/modules.cc interpose/stacks/modules_elf.cc interpose/stacks/loader_walk.cc
// uses: interpose/stacks/unwind_cfi.cc interpose/stacks/unwind_row.cc
// uses: interpose/stacks/unwind_expression.cc
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "interpose/stacks/modules.h"
#include "interpose/stacks/unwind_cfi.h"

namespace {

using traintrace::CfaFrom;
using traintrace::Module;
using traintrace::Segment;

// The segment with the tables of a module, moved somewhere else together with the code they speak
// of.
class MovedTables {
 public:
  explicit MovedTables(const Module& of) : module_(of) {
    const Segment& segment = *traintrace::segment_of(of, of.eh_frame_hdr);
    bytes_.resize(segment.end - segment.begin);
    copy_from(reinterpret_cast<const volatile uint8_t*>(segment.begin));
    distance_ = reinterpret_cast<uint64_t>(bytes_.data()) - segment.begin;
    module_.eh_frame_hdr += distance_;
    module_.segment_count = 1;
    module_.segments[0] = {segment.begin + distance_, segment.end + distance_, true, false};
  }
  MovedTables(const MovedTables&) = delete;
  MovedTables& operator=(const MovedTables&) = delete;

  const Module& module() const { return module_; }
  uint64_t distance() const { return distance_; }
  // From the start of .eh_frame_hdr on.
  uint8_t* tables() { return reinterpret_cast<uint8_t*>(module_.eh_frame_hdr); }
  size_t table_bytes() const { return module_.segments[0].end - module_.eh_frame_hdr; }

 private:
  // The segment also holds constants, and between those a sanitizer's red zones.
  __attribute__((no_sanitize("address"))) void copy_from(const volatile uint8_t* from) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      bytes_.data()[i] = from[i];
    }
  }

  Module module_;
  std::vector<uint8_t> bytes_;
  uint64_t distance_;
};

const Module& module_with(const void* address) {
  traintrace::refresh_modules();
  const Module* module = traintrace::module_of(reinterpret_cast<uint64_t>(address));
  EXPECT_NE(module, nullptr);
  return *module;
}

// Addresses all over the code of a module.
std::vector<uint64_t> some_code(const Module& module, size_t count, std::mt19937& random) {
  std::vector<uint64_t> addresses;
  for (const Segment& segment : module.segments) {
    for (size_t i = 0; segment.executable && i < count; ++i) {
      addresses.push_back(segment.begin + random() % (segment.end - segment.begin));
    }
  }
  return addresses;
}

class UnwindCorrupt : public testing::TestWithParam<const void*> {};

TEST_P(UnwindCorrupt, UndamagedTablesGiveTheSame) {
  std::mt19937 random(1);
  const Module& module = module_with(GetParam());
  const MovedTables moved(module);
  size_t known = 0;
  for (const uint64_t pc : some_code(module, 20000, random)) {
    const auto rule = traintrace::rule_of(module, pc);
    EXPECT_EQ(rule, traintrace::rule_of(moved.module(), pc + moved.distance()));
    known += rule.cfa_from() >= CfaFrom::kSp;
  }
  EXPECT_GT(known, 10000U);
}

// Whatever happens inside, this comes back.
void read_all(const MovedTables& moved, const std::vector<uint64_t>& code) {
  for (const uint64_t pc : code) {
    traintrace::rule_of(moved.module(), pc + moved.distance());
  }
}

TEST_P(UnwindCorrupt, DamagedBytes) {
  std::mt19937 random(2);
  const Module& module = module_with(GetParam());
  MovedTables moved(module);
  const std::vector<uint8_t> original(moved.tables(), moved.tables() + moved.table_bytes());
  const std::vector<uint64_t> code = some_code(module, 300, random);
  for (int round = 0; round < 300; ++round) {
    std::copy(original.begin(), original.end(), moved.tables());
    const size_t changes = size_t{1} << random() % 14;
    for (size_t i = 0; i < changes; ++i) {
      // Mostly small numbers and all ones: they are what lengths and counts trip over.
      const uint8_t values[] = {0, 1, 0x7F, 0x80, 0xFF, static_cast<uint8_t>(random())};
      moved.tables()[random() % moved.table_bytes()] = values[random() % 6];
    }
    read_all(moved, code);
  }
}

TEST_P(UnwindCorrupt, Noise) {
  std::mt19937 random(3);
  const Module& module = module_with(GetParam());
  MovedTables moved(module);
  const std::vector<uint8_t> original(moved.tables(), moved.tables() + moved.table_bytes());
  const std::vector<uint64_t> code = some_code(module, 300, random);
  for (int round = 0; round < 20; ++round) {
    std::generate(moved.tables() + 12, moved.tables() + moved.table_bytes(),
                  [&] { return static_cast<uint8_t>(random()); });
    std::copy(original.begin(), original.begin() + 12, moved.tables());
    read_all(moved, code);
  }
}

// The header says that the table is longer than its section.
TEST_P(UnwindCorrupt, HeaderThatPromisesTooMuch) {
  std::mt19937 random(4);
  const Module& module = module_with(GetParam());
  MovedTables moved(module);
  const std::vector<uint64_t> code = some_code(module, 300, random);
  for (const uint32_t count : {0xFFFFFFFFu, 0x7FFFFFFFu, 0x10000000u, 1u, 0u}) {
    memcpy(moved.tables() + 8, &count, sizeof count);
    read_all(moved, code);
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, UnwindCorrupt,
                         testing::Values(reinterpret_cast<const void*>(&module_with),
                                         reinterpret_cast<const void*>(&qsort)));

}  // namespace
