// Unwind tables written by hand, byte by byte, and the rules that must come of them.
// uses: interpose/record/map_memory.cc
// uses: interpose/stacks/modules.cc interpose/stacks/modules_elf.cc interpose/stacks/loader_walk.cc
// uses: interpose/stacks/unwind_cfi.cc interpose/stacks/unwind_row.cc
// uses: interpose/stacks/unwind_expression.cc
#include "interpose/stacks/unwind_cfi.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace {

using traintrace::CfaFrom;
using traintrace::FpFrom;
using traintrace::Module;
using traintrace::rule_of_entry;
using traintrace::UnwindRule;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kCode = 0x10000;

// Registers, and the operations whose opcodes hold them.
constexpr uint8_t kFp = traintrace::kDwarfFp;
constexpr uint8_t kSp = traintrace::kDwarfSp;
constexpr uint8_t kRa = traintrace::kDwarfReturnAddress;
constexpr uint8_t kSaveFp = 0x80 + kFp;  // offset
constexpr uint8_t kSaveRa = 0x80 + kRa;
constexpr uint8_t kRestoreFp = 0xC0 + kFp;
constexpr uint8_t kPlaceFp = 0x70 + kFp;  // breg
constexpr uint8_t kPlaceSp = 0x70 + kSp;

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

template <class Number>
Bytes little(Number number) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&number);
  return Bytes(bytes, bytes + sizeof number);
}

Bytes entry(const Bytes& body) {
  return little(static_cast<uint32_t>(body.size())) + body;
}

// A common entry and one for 0x100 bytes of code at kCode, with absolute pointers.
struct Tables {
  Bytes augmentation{'z', 'R', 0};
  Bytes augmentation_data{1, 0x04};  // its length; pointers are 8 bytes
  uint8_t version = 1;
  uint8_t return_register = kRa;
  uint8_t data_factor = 0x78;             // -8
  Bytes start{0x0C, kSp, 8, kSaveRa, 1};  // CFA = sp + 8, return address at CFA - 8

  Bytes common() const {
    return entry(little(uint32_t{0}) + Bytes{version} + augmentation +
                 Bytes{1, data_factor, return_register} + augmentation_data + start);
  }
  Bytes all(const Bytes& instructions) const {
    const Bytes first = common();
    return first + entry(little(static_cast<uint32_t>(first.size() + 4)) + little(kCode) +
                         little(uint64_t{0x100}) + Bytes{0} + instructions);
  }
  UnwindRule rule(const Bytes& instructions, uint64_t offset = 0x80) const {
    const Bytes bytes = all(instructions);
    Module module{};
    const auto address = reinterpret_cast<uint64_t>(bytes.data());
    module.segments[0] = {address, address + bytes.size(), true, false};
    module.segment_count = 1;
    return rule_of_entry(module, address + common().size(), kCode + offset);
  }
};

UnwindRule from_sp(int64_t offset) {
  return UnwindRule({.cfa_from = CfaFrom::kSp, .cfa_offset = offset});
}

TEST(UnwindCfi, StartOfAFunction) {
  EXPECT_EQ(Tables().rule({}), from_sp(8));
}

TEST(UnwindCfi, CodeOfNobody) {
  EXPECT_EQ(Tables().rule({}, 0x100).cfa_from(), CfaFrom::kFramePointer);
}

// As push rbp; mov rbp, rsp has it.
TEST(UnwindCfi, FramePointer) {
  const Bytes code{0x41, 0x0E, 16, kSaveFp, 2, 0x43, 0x0D, kFp};
  EXPECT_EQ(Tables().rule(code, 0), from_sp(8));
  EXPECT_EQ(Tables().rule(code, 1), UnwindRule({.cfa_from = CfaFrom::kSp,
                                                .fp_from = FpFrom::kAtCfa,
                                                .cfa_offset = 16,
                                                .fp_offset = -16}));
  EXPECT_EQ(Tables().rule(code, 4), UnwindRule({.cfa_from = CfaFrom::kFp,
                                                .fp_from = FpFrom::kAtCfa,
                                                .cfa_offset = 16,
                                                .fp_offset = -16}));
}

TEST(UnwindCfi, AdvancesOfAllSizes) {
  const Bytes code{0x02, 0x10, 0x0E, 16, 0x03, 0x10, 0x00, 0x0E, 24, 0x04, 0x10, 0, 0, 0, 0x0E, 32};
  EXPECT_EQ(Tables().rule(code, 0x0F), from_sp(8));
  EXPECT_EQ(Tables().rule(code, 0x10), from_sp(16));
  EXPECT_EQ(Tables().rule(code, 0x2F), from_sp(24));
  EXPECT_EQ(Tables().rule(code, 0x30), from_sp(32));
}

TEST(UnwindCfi, SetLocation) {
  const Bytes code = Bytes{0x01} + little(kCode + 0x20) + Bytes{0x0E, 48};
  EXPECT_EQ(Tables().rule(code, 0x1F), from_sp(8));
  EXPECT_EQ(Tables().rule(code, 0x20), from_sp(48));
}

TEST(UnwindCfi, RememberedRows) {
  const Bytes code{0x0E, 16, 0x0A, 0x41, 0x0E, 64, kSaveFp, 3, 0x41, 0x0B};
  EXPECT_EQ(Tables().rule(code, 1).cfa_offset(), 64);
  EXPECT_EQ(Tables().rule(code, 2), from_sp(16));
}

TEST(UnwindCfi, RestoredRegister) {
  EXPECT_EQ(Tables().rule({kSaveFp, 2, kRestoreFp}), from_sp(8));
  EXPECT_EQ(Tables().rule({kSaveFp, 2, 0x06, kFp}), from_sp(8));
}

TEST(UnwindCfi, SignedAndFactoredOffsets) {
  EXPECT_EQ(Tables().rule({0x12, kSp, 0x7E}), from_sp(16));           // def_cfa_sf
  EXPECT_EQ(Tables().rule({0x13, 0x7D}), from_sp(24));                // def_cfa_offset_sf
  EXPECT_EQ(Tables().rule({0x11, kFp, 0x03}).fp_offset(), -24);       // offset_extended_sf
  EXPECT_EQ(Tables().rule({0x05, kFp, 4}).fp_offset(), -32);          // offset_extended
  EXPECT_EQ(Tables().rule({0x2F, kFp, 4}).fp_offset(), 32);           // GNU_negative_offset
  EXPECT_EQ(Tables().rule({0x2E, 0x80, 0x01}), from_sp(8));           // GNU_args_size
  EXPECT_EQ(Tables().rule({0x83, 2, 0x8C, 3, 0x08, 3}), from_sp(8));  // registers not followed
}

TEST(UnwindCfi, ValuesThatAreNotInMemory) {
  EXPECT_EQ(Tables().rule({0x07, kFp}).fp_from(), FpFrom::kLost);
  EXPECT_EQ(Tables().rule({0x09, kFp, 3}).fp_from(), FpFrom::kLost);
  EXPECT_EQ(Tables().rule({0x14, kFp, 3}).fp_from(), FpFrom::kLost);
  EXPECT_EQ(Tables().rule({0x16, kFp, 2, kPlaceFp, 0}).fp_from(), FpFrom::kLost);
}

TEST(UnwindCfi, EndOfTheStack) {
  EXPECT_EQ(Tables().rule({0x07, kRa}).cfa_from(), CfaFrom::kNoCaller);
}

// CFA = *(fp - 8), fp at fp + 0: a frame that aligned its stack.
TEST(UnwindCfi, AlignedFrame) {
  const UnwindRule rule = Tables().rule({0x10, kFp, 2, kPlaceFp, 0, 0x0F, 3, kPlaceFp, 0x78, 0x06});
  EXPECT_EQ(rule,
            UnwindRule({.cfa_from = CfaFrom::kAtFp, .fp_from = FpFrom::kAtFp, .cfa_offset = -8}));
}

#if defined(__x86_64__)
// sp + 8 + ((rip & 15) >= 11) * 8: the second instruction of a stub has pushed something.
TEST(UnwindCfi, StubOfProcedureLinkageTable) {
  const Bytes code{0x0F, 11, kPlaceSp, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22};
  EXPECT_EQ(Tables().rule(code, 0x20), from_sp(8));
  EXPECT_EQ(Tables().rule(code, 0x2A), from_sp(8));
  EXPECT_EQ(Tables().rule(code, 0x2B), from_sp(16));
}
#endif

// At the lower end of a frame of 32 KiB, as Arm64 has them: counted from where the CFA is.
TEST(UnwindCfi, LargeFrame) {
  const Bytes saved = Bytes{kSaveFp, 0x80, 0x20, kSaveRa, 0xFF, 0x1F};  // -32768 and -32760
  EXPECT_EQ(Tables().rule(Bytes{0x0E, 0x90, 0x80, 2} + saved), UnwindRule({.cfa_from = CfaFrom::kSp,
                                                                           .fp_from = FpFrom::kAtSp,
                                                                           .return_at_sp = true,
                                                                           .cfa_offset = 32784,
                                                                           .fp_offset = 16,
                                                                           .return_offset = 24}));
  EXPECT_EQ(Tables().rule(Bytes{0x0C, kFp, 0x90, 0x80, 2} + saved),
            UnwindRule({.cfa_from = CfaFrom::kFp,
                        .fp_from = FpFrom::kRecordAtFp,
                        .cfa_offset = 32784,
                        .fp_offset = 16}));
}

// As glibc's __restore_rt has it.
TEST(UnwindCfi, SignalFrame) {
  Tables tables;
  tables.augmentation = {'z', 'R', 'S', 0};
  tables.start = {0x0F, 4,   kPlaceSp, 0xA0,     0x01, 0x06,   // CFA = *(sp + 160)
                  0x10, kRa, 3,        kPlaceSp, 0xA8, 0x01,   // return address at sp + 168
                  0x10, kFp, 3,        kPlaceSp, 0xF8, 0x00};  // fp at sp + 120
  EXPECT_EQ(tables.rule({}), UnwindRule({.cfa_from = CfaFrom::kAtSp,
                                         .fp_from = FpFrom::kAtSp,
                                         .return_at_sp = true,
                                         .interrupted = true,
                                         .cfa_offset = 160,
                                         .fp_offset = 120,
                                         .return_offset = 168}));
}

TEST(UnwindCfi, Augmentations) {
  Tables tables;
  tables.augmentation = {'z', 'P', 'L', 'R', 'B', 0};
  tables.augmentation_data = Bytes{7, 0x9B, 1, 2, 3, 4, 0x1B, 0x04};
  // The entry's own augmentation is still empty.
  EXPECT_EQ(tables.rule({}), from_sp(8));
  tables.augmentation = {0};
  tables.augmentation_data = {};
  EXPECT_EQ(Tables(tables).rule({}).cfa_from(), CfaFrom::kSp);
}

constexpr CfaFrom kNowhere = CfaFrom::kNowhere;

TEST(UnwindCfi, WhatIsNotUnderstoodEndsTheStack) {
  EXPECT_EQ(Tables().rule({0x3F}).cfa_from(), kNowhere);                 // no such instruction
  EXPECT_EQ(Tables().rule({0x0C, 3, 8}).cfa_from(), kNowhere);           // CFA from rbx
  EXPECT_EQ(Tables().rule({0x0B}).cfa_from(), kNowhere);                 // nothing remembered
  EXPECT_EQ(Tables().rule(Bytes(100, 0x0A)).cfa_from(), kNowhere);       // too much remembered
  EXPECT_EQ(Tables().rule({0x0E}).cfa_from(), kNowhere);                 // operand missing
  EXPECT_EQ(Tables().rule({0x0F, 200, kPlaceSp}).cfa_from(), kNowhere);  // longer than the entry
  EXPECT_EQ(Tables().rule({0x0F, 1, 0x06}).cfa_from(), kNowhere);        // of an empty stack
  EXPECT_EQ(Tables().rule({0x0F, 3, 0x2F, 0xFD, 0xFF}).cfa_from(), kNowhere);  // a jump
  EXPECT_EQ(Tables().rule({0x0F, 2, kPlaceSp, 0}, 0).cfa_from(), CfaFrom::kSp);
  EXPECT_EQ(Tables().rule({0x0E, 0x80, 0x80, 0x80, 0x80, 0x10}).cfa_from(), kNowhere);  // 2^32
  EXPECT_EQ(Tables().rule({kSaveRa, 0x80, 0x20}).cfa_from(), kNowhere);  // return address too far
}

TEST(UnwindCfi, OtherTablesEndTheStack) {
  Tables other;
  other.version = 4;
  EXPECT_EQ(other.rule({}).cfa_from(), kNowhere);
  other = {};
  other.return_register = kRa + 1;
  EXPECT_EQ(other.rule({}).cfa_from(), kNowhere);
  other = {};
  other.augmentation = {'e', 'h', 0};
  EXPECT_EQ(other.rule({}).cfa_from(), kNowhere);
  other = {};
  other.augmentation_data = {1, 0x30 | 0x0B};  // relative to data
  EXPECT_EQ(other.rule({}).cfa_from(), kNowhere);
}

}  // namespace
