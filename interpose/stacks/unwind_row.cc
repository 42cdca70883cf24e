#include "interpose/stacks/unwind_row.h"

#include "interpose/stacks/unwind_expression.h"

namespace traintrace {

bool UnwindInterpreter::step(UnwindBytes& code) {
  const auto byte = code.read<uint8_t>();
  const uint8_t operand = byte & 0x3F;
  switch (byte & 0xC0) {
    case 0x40:  // advance_loc
      advance(operand);
      return true;
    case 0x80:  // offset
      set_offset(operand, code.uleb());
      return true;
    case 0xC0:  // restore
      restore(operand);
      return true;
    default:
      return step_extended(byte, code);
  }
}

bool UnwindInterpreter::step_extended(uint8_t opcode, UnwindBytes& code) {
  switch (opcode) {
    case 0x00:  // nop
      return true;
    case 0x01:  // set_loc
      location_ = code.encoded(common_.pointer_encoding);
      return true;
    case 0x02:
      advance(code.read<uint8_t>());
      return true;
    case 0x03:
      advance(code.read<uint16_t>());
      return true;
    case 0x04:
      advance(code.read<uint32_t>());
      return true;
    case 0x05:    // offset_extended
    case 0x11: {  // offset_extended_sf
      const uint64_t number = code.uleb();
      set_offset(number, opcode == 0x05 ? code.uleb() : static_cast<uint64_t>(code.sleb()));
      return true;
    }
    case 0x2F: {  // GNU_negative_offset_extended
      const uint64_t number = code.uleb();
      set_offset(number, uint64_t{0} - code.uleb());
      return true;
    }
    case 0x06:  // restore_extended
      restore(code.uleb());
      return true;
    case 0x07:  // undefined
      set_other(code.uleb(), UnwindRegister::Kind::kUndefined);
      return true;
    case 0x08:  // same_value
      set_other(code.uleb(), UnwindRegister::Kind::kSame);
      return true;
    case 0x09:    // register
    case 0x14:    // val_offset
    case 0x15: {  // val_offset_sf
      set_other(code.uleb(), UnwindRegister::Kind::kOther);
      code.uleb();
      return true;
    }
    case 0x10: {  // expression
      const uint64_t number = code.uleb();
      const UnwindBytes text = code.take(code.uleb());
      set_rule(number, {UnwindRegister::Kind::kExpression, 0, text.position(), code.position()});
      return true;
    }
    case 0x16:  // val_expression
      set_other(code.uleb(), UnwindRegister::Kind::kOther);
      code.skip(code.uleb());
      return true;
    case 0x2E:  // GNU_args_size: of interest to exceptions only
      code.uleb();
      return true;
#if defined(__aarch64__)
    case 0x2D:  // AARCH64_negate_ra_state: whether the return address is signed
      return true;
#endif
    default:
      return step_cfa(opcode, code);
  }
}

bool UnwindInterpreter::step_cfa(uint8_t opcode, UnwindBytes& code) {
  switch (opcode) {
    case 0x0A:  // remember_state
      if (remembered_count_ == kRemembered) {
        return false;
      }
      remembered_[remembered_count_++] = row_;
      return true;
    case 0x0B:  // restore_state
      if (remembered_count_ == 0) {
        return false;
      }
      row_ = remembered_[--remembered_count_];
      return true;
    case 0x0C:  // def_cfa
    case 0x12:  // def_cfa_sf
      row_.cfa_is_expression = false;
      row_.cfa_register = code.uleb();
      row_.cfa_offset = opcode == 0x0C ? static_cast<int64_t>(code.uleb())
                                       : scaled(static_cast<uint64_t>(code.sleb()));
      return true;
    case 0x0D:  // def_cfa_register
      row_.cfa_register = code.uleb();
      return !row_.cfa_is_expression;
    case 0x0E:  // def_cfa_offset
      row_.cfa_offset = static_cast<int64_t>(code.uleb());
      return !row_.cfa_is_expression;
    case 0x13:  // def_cfa_offset_sf
      row_.cfa_offset = scaled(static_cast<uint64_t>(code.sleb()));
      return !row_.cfa_is_expression;
    case 0x0F: {  // def_cfa_expression
      const UnwindBytes text = code.take(code.uleb());
      row_.cfa_is_expression = true;
      row_.expression = text.position();
      row_.expression_end = code.position();
      return true;
    }
    default:
      return false;
  }
}

namespace {

bool put_cfa(const UnwindRow& row, uint64_t pc, UnwindFields& rule) {
  UnwindPlace place;
  if (row.cfa_is_expression) {
    place = evaluate_expression(UnwindBytes(row.expression, row.expression_end), pc, false);
  } else {
    place.base = row.cfa_register == kDwarfSp   ? UnwindPlace::Base::kSp
                 : row.cfa_register == kDwarfFp ? UnwindPlace::Base::kFp
                                                : UnwindPlace::Base::kUnknown;
    place.offset = row.cfa_offset;
  }
  if (place.base == UnwindPlace::Base::kSp) {
    rule.cfa_from = place.in_memory ? CfaFrom::kAtSp : CfaFrom::kSp;
  } else if (place.base == UnwindPlace::Base::kFp) {
    rule.cfa_from = place.in_memory ? CfaFrom::kAtFp : CfaFrom::kFp;
  } else {
    return false;
  }
  rule.cfa_offset = place.offset;
  return UnwindRule::fits_cfa(place.offset);
}

// Where a register lies in memory; an unknown base where it cannot be said.
UnwindPlace place_of(const UnwindRegister& of, uint64_t pc, const UnwindFields& rule) {
  if (of.kind == UnwindRegister::Kind::kExpression) {
    return evaluate_expression(UnwindBytes(of.expression, of.expression_end), pc, true);
  }
  if (of.kind != UnwindRegister::Kind::kOffset) {
    return {};
  }
  // At the lower end of a large frame, where Arm64 has it: not far from what the CFA is counted
  // from.
  if (!UnwindRule::fits_register(of.offset) && UnwindRule::fits_cfa(of.offset)) {
    const int64_t offset = rule.cfa_offset + of.offset;
    if (rule.cfa_from == CfaFrom::kSp) {
      return {UnwindPlace::Base::kSp, false, offset};
    }
    if (rule.cfa_from == CfaFrom::kFp) {
      return {UnwindPlace::Base::kFp, false, offset};
    }
  }
  return {UnwindPlace::Base::kCfa, false, of.offset};
}

void put_fp(const UnwindRow& row, uint64_t pc, UnwindFields& rule) {
  if (row.fp.kind == UnwindRegister::Kind::kSame) {
    rule.fp_from = FpFrom::kSame;
    return;
  }
  const UnwindPlace place = place_of(row.fp, pc, rule);
  if (place.in_memory || !UnwindRule::fits_register(place.offset)) {
    rule.fp_from = FpFrom::kLost;
    return;
  }
  rule.fp_from = place.base == UnwindPlace::Base::kCfa  ? FpFrom::kAtCfa
                 : place.base == UnwindPlace::Base::kSp ? FpFrom::kAtSp
                 : place.base == UnwindPlace::Base::kFp ? FpFrom::kAtFp
                                                        : FpFrom::kLost;
  rule.fp_offset = place.offset;
}

bool put_return_address(const UnwindRow& row, uint64_t pc, UnwindFields& rule) {
  const UnwindPlace place = place_of(row.return_address, pc, rule);
  if (place.base == UnwindPlace::Base::kFp && rule.fp_from == FpFrom::kAtFp && !place.in_memory &&
      place.offset == rule.fp_offset + 8) {
    rule.fp_from = FpFrom::kRecordAtFp;
    return true;
  }
  rule.return_at_sp = place.base == UnwindPlace::Base::kSp;
  rule.return_offset = place.offset;
  return (rule.return_at_sp || place.base == UnwindPlace::Base::kCfa) && !place.in_memory &&
         UnwindRule::fits_register(place.offset);
}

}  // namespace

UnwindRule rule_of_row(const UnwindRow& row, bool signal_frame, uint64_t pc) noexcept {
  if (row.return_address.kind == UnwindRegister::Kind::kUndefined) {
    return UnwindRule(CfaFrom::kNoCaller);
  }
  UnwindFields rule;
  rule.interrupted = signal_frame;
  if (!put_cfa(row, pc, rule)) {
    return UnwindRule(CfaFrom::kNowhere);
  }
  put_fp(row, pc, rule);
  if (!put_return_address(row, pc, rule)) {
    return UnwindRule(CfaFrom::kNowhere);
  }
  return UnwindRule(rule);
}

}  // namespace traintrace
