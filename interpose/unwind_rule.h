// How to get from a frame to its caller's, for one place in the code of x86-64.
//
// It is what remains of the unwind tables' row for that place: the canonical frame address (CFA,
// the stack pointer before the call), where the caller's rbp is, where the return address is. Other
// registers are not followed: a place whose row needs one ends the stack.
#pragma once

#include <cstdint>

namespace traintrace {

enum class CfaFrom : uint8_t {
  kNowhere,       // not known: the stack ends here
  kNoCaller,      // the tables say that nobody called
  kFramePointer,  // no tables: as kRbp if what is there looks like a frame
  kNoModule,      // the same for code that no module had when modules_version() was cfa_offset
  kRsp,           // cfa = rsp + cfa_offset
  kRbp,           // cfa = rbp + cfa_offset
  kAtRsp,         // cfa = *(rsp + cfa_offset)
  kAtRbp,         // cfa = *(rbp + cfa_offset), frames that aligned their stack
};

enum class RbpFrom : uint8_t {
  kSame,
  kAtCfa,  // *(cfa + rbp_offset)
  kAtRsp,  // *(rsp + rbp_offset)
  kAtRbp,  // *(rbp + rbp_offset)
  kLost,
};

struct UnwindFields {
  CfaFrom cfa_from = CfaFrom::kNowhere;
  RbpFrom rbp_from = RbpFrom::kSame;
  bool return_at_rsp = false;  // else at the CFA
  bool interrupted = false;    // a signal's frame: the next address is not behind a call
  int64_t cfa_offset = 0;
  int64_t rbp_offset = 0;
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
              static_cast<uint64_t>(fields.rbp_from) << 35 | uint64_t{fields.return_at_rsp} << 38 |
              uint64_t{fields.interrupted} << 39 |
              (static_cast<uint64_t>(fields.rbp_offset / 8) & 0xFFF) << 40 |
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
  constexpr RbpFrom rbp_from() const noexcept { return static_cast<RbpFrom>(bits_ >> 35 & 7); }
  constexpr bool return_at_rsp() const noexcept { return (bits_ >> 38 & 1) != 0; }
  constexpr bool interrupted() const noexcept { return (bits_ >> 39 & 1) != 0; }
  constexpr int64_t cfa_offset() const noexcept { return static_cast<int32_t>(bits_); }
  constexpr int64_t rbp_offset() const noexcept {
    return static_cast<int64_t>(bits_ << 12) >> 52 << 3;
  }
  constexpr int64_t return_offset() const noexcept {
    return static_cast<int64_t>(bits_) >> 52 << 3;
  }

  // Nearly all frames: the CFA is so far from rsp or rbp, the return address is just below it, the
  // caller's rbp is kept or pushed.  Bits that must be as follows: return_offset -8; neither
  // return_at_rsp nor interrupted; rbp_from 0 or 1; cfa_from 4 or 5.
  constexpr bool is_ordinary() const noexcept {
    return (bits_ & 0xFFF000F600000000) == 0xFFF0000400000000;
  }
  constexpr bool ordinary_from_rbp() const noexcept { return (bits_ >> 32 & 1) != 0; }
  constexpr bool ordinary_saves_rbp() const noexcept { return (bits_ >> 35 & 1) != 0; }

  friend constexpr bool operator==(UnwindRule a, UnwindRule b) noexcept {
    return a.bits_ == b.bits_;
  }

 private:
  uint64_t bits_ = 0;
};

static_assert(UnwindRule({.cfa_from = CfaFrom::kRsp}).is_ordinary());
static_assert(UnwindRule({.cfa_from = CfaFrom::kRbp, .rbp_from = RbpFrom::kAtCfa}).is_ordinary());
static_assert(!UnwindRule({.cfa_from = CfaFrom::kAtRsp}).is_ordinary());
static_assert(!UnwindRule({.cfa_from = CfaFrom::kNoModule}).is_ordinary());
static_assert(!UnwindRule({.cfa_from = CfaFrom::kRsp, .interrupted = true}).is_ordinary());
static_assert(!UnwindRule({.cfa_from = CfaFrom::kRsp, .rbp_from = RbpFrom::kAtRsp}).is_ordinary());

}  // namespace traintrace
