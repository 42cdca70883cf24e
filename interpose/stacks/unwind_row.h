// Call frame instructions: the table that DWARF describes by them (DWARF 5, 6.4), as far as the
// CFA, the frame pointer and the return address go.
#pragma once

#include <cstdint>

#include "interpose/stacks/unwind_bytes.h"
#include "interpose/stacks/unwind_rule.h"

namespace traintrace {

struct UnwindRegister {
  enum class Kind : uint8_t { kSame, kUndefined, kOffset, kExpression, kOther };
  Kind kind = Kind::kSame;
  int64_t offset = 0;  // from the CFA
  uint64_t expression = 0;
  uint64_t expression_end = 0;
};

// One row of the table that the instructions describe, as far as it is followed.
struct UnwindRow {
  bool cfa_is_expression = false;
  uint64_t cfa_register = ~uint64_t{0};
  int64_t cfa_offset = 0;
  uint64_t expression = 0;
  uint64_t expression_end = 0;
  UnwindRegister fp;
  UnwindRegister return_address;

  // Null for the registers that are not followed.
  UnwindRegister* rule_for(uint64_t number) noexcept {
    return number == kDwarfFp ? &fp : number == kDwarfReturnAddress ? &return_address : nullptr;
  }
};

// What the instructions of one function refer to.
struct UnwindCommonEntry {
  uint64_t code_factor = 0;
  int64_t data_factor = 0;
  uint8_t pointer_encoding = 0;
  bool augmented = false;
  bool signal_frame = false;
  UnwindBytes instructions{1, 0};
};

// Runs call frame instructions until the row for `pc`.
class UnwindInterpreter {
 public:
  UnwindInterpreter(const UnwindCommonEntry& common, uint64_t begin, uint64_t pc)
      : common_(common), location_(begin), pc_(pc) {}

  // False: damaged or not understood.
  bool run(UnwindBytes code) {
    while (!code.empty() && location_ <= pc_) {
      if (!step(code) || !code.ok()) {
        return false;
      }
    }
    return true;
  }
  void rows_start_here() { initial_ = row_; }
  const UnwindRow& row() const { return row_; }

 private:
  static constexpr int kRemembered = 8;

  bool step(UnwindBytes& code);
  bool step_extended(uint8_t opcode, UnwindBytes& code);
  bool step_cfa(uint8_t opcode, UnwindBytes& code);

  // A row ends where the location passes the instruction that is asked for.
  void advance(uint64_t delta) { location_ += delta * common_.code_factor; }
  void set_rule(uint64_t number, const UnwindRegister& rule) {
    if (UnwindRegister* of = row_.rule_for(number)) {
      *of = rule;
    }
  }
  void set_offset(uint64_t number, uint64_t factored) {
    set_rule(number, {UnwindRegister::Kind::kOffset, scaled(factored), 0, 0});
  }
  void set_other(uint64_t number, UnwindRegister::Kind kind) { set_rule(number, {kind, 0, 0, 0}); }
  void restore(uint64_t number) {
    if (UnwindRegister* of = row_.rule_for(number)) {
      *of = *initial_.rule_for(number);
    }
  }
  // Products that wrap around are caught where offsets are put into a rule.
  int64_t scaled(uint64_t factored) const {
    return static_cast<int64_t>(factored * static_cast<uint64_t>(common_.data_factor));
  }

  const UnwindCommonEntry& common_;
  uint64_t location_;
  uint64_t pc_;
  UnwindRow row_;
  UnwindRow initial_;
  UnwindRow remembered_[kRemembered];
  int remembered_count_ = 0;
};

// The rule that a row amounts to at `pc`; kNowhere where it uses what is not followed.
UnwindRule rule_of_row(const UnwindRow& row, bool signal_frame, uint64_t pc) noexcept;

}  // namespace traintrace
