// How to get from a frame to its caller's, for one place in the code.
//
// It is what remains of the unwind tables' row for that place: the canonical frame address (CFA,
// the stack pointer before the call), where the caller's frame pointer is, where the return address
// is. Other registers are not followed: a place whose row needs one ends the stack.
//
// sp and fp are rsp and rbp of x86-64, sp and x29 of Arm64.
#pragma once

#include <cstdint>

namespace traintrace {

// The registers' numbers in the System V ABI's supplement for x86-64 and in DWARF for the Arm
// 64-bit Architecture; for the return address, that of the link register.
#if defined(__aarch64__)
inline constexpr unsigned kDwarfFp = 29, kDwarfSp = 31, kDwarfReturnAddress = 30;
#else
inline constexpr unsigned kDwarfFp = 6, kDwarfSp = 7, kDwarfReturnAddress = 16;
#endif

enum class CfaFrom : uint8_t {
  kNowhere,       // not known: the stack ends here
  kNoCaller,      // the tables say that nobody called
  kFramePointer,  // no tables: as kFp if what is there looks like a frame
  kNoModule,      // the same for code that no module had when modules_version() was cfa_offset
  kSp,            // cfa = sp + cfa_offset
  kFp,            // cfa = fp + cfa_offset
  kAtSp,          // cfa = *(sp + cfa_offset)
  kAtFp,          // cfa = *(fp + cfa_offset), frames that aligned their stack
};

enum class FpFrom : uint8_t {
  kSame,
  kAtCfa,       // *(cfa + fp_offset)
  kAtSp,        // *(sp + fp_offset)
  kAtFp,        // *(fp + fp_offset)
  kRecordAtFp,  // the same, and the return address in the word after it
  kLost,
};

struct UnwindFields {
  CfaFrom cfa_from = CfaFrom::kNowhere;
  FpFrom fp_from = FpFrom::kSame;
  bool return_at_sp = false;  // else at the CFA
  bool interrupted = false;   // a signal's frame: the next address is not behind a call
  int64_t cfa_offset = 0;
  int64_t fp_offset = 0;
  int64_t return_offset = -8;
};

// One 64-bit word, so that a cache of rules can be shared without locks.  Shifts instead of
// bit-fields, which gcc takes apart and puts together again in the loop where every instruction
// counts.
class UnwindRule {
 public:
  constexpr UnwindRule() noexcept = default;
  explicit constexpr UnwindRule(const UnwindFields& fields) noexcept
      : bits_((static_cast<uint64_t>(fields.cfa_offset) & 0xFFFFFFFF) |
              static_cast<uint64_t>(fields.cfa_from) << 32 |
              static_cast<uint64_t>(fields.fp_from) << 35 | uint64_t{fields.return_at_sp} << 38 |
              uint64_t{fields.interrupted} << 39 |
              (static_cast<uint64_t>(fields.fp_offset / 8) & 0xFFF) << 40 |
              static_cast<uint64_t>(fields.return_offset / 8) << 52) {}
  explicit constexpr UnwindRule(CfaFrom from) noexcept
      : UnwindRule(UnwindFields{.cfa_from = from}) {}

  static constexpr UnwindRule from_bits(uint64_t bits) noexcept {
    UnwindRule rule;
    rule.bits_ = bits;
    return rule;
  }
  constexpr uint64_t bits() const noexcept { return bits_; }

  // Whether a rule can hold it.
  static constexpr bool fits_cfa(int64_t offset) noexcept {
    return offset == static_cast<int32_t>(offset);
  }
  static constexpr bool fits_register(int64_t offset) noexcept {
    return offset % 8 == 0 && offset >= -0x4000 && offset < 0x4000;
  }

  constexpr CfaFrom cfa_from() const noexcept { return static_cast<CfaFrom>(bits_ >> 32 & 7); }
  constexpr FpFrom fp_from() const noexcept { return static_cast<FpFrom>(bits_ >> 35 & 7); }
  constexpr bool return_at_sp() const noexcept { return (bits_ >> 38 & 1) != 0; }
  constexpr bool interrupted() const noexcept { return (bits_ >> 39 & 1) != 0; }
  constexpr int64_t cfa_offset() const noexcept { return static_cast<int32_t>(bits_); }
  constexpr int64_t fp_offset() const noexcept {
    return static_cast<int64_t>(bits_ << 12) >> 52 << 3;
  }
  constexpr int64_t return_offset() const noexcept {
    return static_cast<int64_t>(bits_) >> 52 << 3;
  }

  // Nearly all frames: the CFA is so far from sp or fp, the return address is just below it (on
  // Arm64 at any distance), the caller's fp is kept or saved.  Bits that must be as follows:
  // neither return_at_sp nor interrupted; fp_from 0 or 1; cfa_from 4 or 5; return_offset -8.
  constexpr bool is_ordinary() const noexcept {
#if defined(__aarch64__)
    return (bits_ & 0x000000F600000000) == 0x0000000400000000;
#else
    return (bits_ & 0xFFF000F600000000) == 0xFFF0000400000000;
#endif
  }
  constexpr int64_t ordinary_return_offset() const noexcept {
#if defined(__aarch64__)
    return return_offset();
#else
    return -8;
#endif
  }
  constexpr bool ordinary_from_fp() const noexcept {
    return (bits_ >> 32 & 1) != 0;
  }
  constexpr bool ordinary_saves_fp() const noexcept {
    return (bits_ >> 35 & 1) != 0;
  }

  friend constexpr bool operator==(UnwindRule a, UnwindRule b) noexcept {
    return a.bits_ == b.bits_;
  }

 private:
  uint64_t bits_ = 0;
};

static_assert(UnwindRule({.cfa_from = CfaFrom::kSp}).is_ordinary());
static_assert(UnwindRule({.cfa_from = CfaFrom::kFp, .fp_from = FpFrom::kAtCfa}).is_ordinary());
static_assert(!UnwindRule({.cfa_from = CfaFrom::kAtSp}).is_ordinary());
static_assert(!UnwindRule({.cfa_from = CfaFrom::kNoModule}).is_ordinary());
static_assert(!UnwindRule({.cfa_from = CfaFrom::kSp, .interrupted = true}).is_ordinary());
static_assert(!UnwindRule({.cfa_from = CfaFrom::kSp, .fp_from = FpFrom::kAtSp}).is_ordinary());

}  // namespace traintrace
