#include "interpose/stacks/unwind_expression.h"

#include "interpose/stacks/unwind_rule.h"

namespace traintrace {
namespace {

// DWARF 5, 7.7.1.
enum Operation : uint8_t {
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s = 0x09,
  kConst2u = 0x0A,
  kConst2s = 0x0B,
  kConst4u = 0x0C,
  kConst4s = 0x0D,
  kConst8u = 0x0E,
  kConst8s = 0x0F,
  kConstu = 0x10,
  kConsts = 0x11,
  kDup = 0x12,
  kDrop = 0x13,
  kSwap = 0x16,
  kAnd = 0x1A,
  kMinus = 0x1C,
  kMul = 0x1E,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusUconst = 0x23,
  kShl = 0x24,
  kEq = 0x29,
  kGe = 0x2A,
  kGt = 0x2B,
  kLe = 0x2C,
  kLt = 0x2D,
  kNe = 0x2E,
  kLit0 = 0x30,
  kLit31 = 0x4F,
  kBreg0 = 0x70,
  kBreg31 = 0x8F,
  kNop = 0x96,
};

constexpr UnwindPlace number(int64_t value) {
  return {UnwindPlace::Base::kNumber, false, value};
}

// Sums that wrap around are what the tables mean by them.
int64_t sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

UnwindPlace of_register(unsigned number_of_register, int64_t offset, [[maybe_unused]] uint64_t pc) {
  switch (number_of_register) {
    case kDwarfFp:
      return {UnwindPlace::Base::kFp, false, offset};
    case kDwarfSp:
      return {UnwindPlace::Base::kSp, false, offset};
#if defined(__x86_64__)
    case kDwarfReturnAddress:  // there the instruction's own address
      return number(sum(static_cast<int64_t>(pc), offset));
#endif
    default:
      return {};
  }
}

bool is_number(const UnwindPlace& place) {
  return place.base == UnwindPlace::Base::kNumber && !place.in_memory;
}

UnwindPlace plus(const UnwindPlace& a, const UnwindPlace& b) {
  if (is_number(b) && !a.in_memory) {
    return {a.base, false, sum(a.offset, b.offset)};
  }
  if (is_number(a) && !b.in_memory) {
    return {b.base, false, sum(a.offset, b.offset)};
  }
  return {};
}

UnwindPlace of_numbers(uint8_t operation, int64_t a, int64_t b) {
  const auto bits = static_cast<uint64_t>(a);
  switch (operation) {
    case kAnd:
      return number(a & b);
    case kOr:
      return number(a | b);
    case kMul:
      return number(static_cast<int64_t>(bits * static_cast<uint64_t>(b)));
    case kShl:
      return number(b >= 0 && b < 64 ? static_cast<int64_t>(bits << b) : 0);
    case kEq:
      return number(a == b);
    case kGe:
      return number(a >= b);
    case kGt:
      return number(a > b);
    case kLe:
      return number(a <= b);
    case kLt:
      return number(a < b);
    case kNe:
      return number(a != b);
    default:
      return {};
  }
}

UnwindPlace of_two(uint8_t operation, const UnwindPlace& a, const UnwindPlace& b) {
  if (operation == kPlus) {
    return plus(a, b);
  }
  if (operation == kMinus) {
    return is_number(b) && !a.in_memory ? UnwindPlace{a.base, false, difference(a.offset, b.offset)}
                                        : UnwindPlace{};
  }
  return is_number(a) && is_number(b) ? of_numbers(operation, a.offset, b.offset) : UnwindPlace{};
}

int64_t constant(uint8_t operation, UnwindBytes& from) {
  switch (operation) {
    case kConst1u:
      return from.read<uint8_t>();
    case kConst1s:
      return from.read<int8_t>();
    case kConst2u:
      return from.read<uint16_t>();
    case kConst2s:
      return from.read<int16_t>();
    case kConst4u:
      return from.read<uint32_t>();
    case kConst4s:
      return from.read<int32_t>();
    case kConstu:
      return static_cast<int64_t>(from.uleb());
    case kConsts:
      return from.sleb();
    default:
      return from.read<int64_t>();
  }
}

// Pops of an empty stack and pushes on a full one give what is unknown.
class PlaceStack {
 public:
  void push(const UnwindPlace& place) {
    if (depth_ == kDepth) {
      broken_ = true;
    } else {
      places_[depth_++] = place;
    }
  }
  UnwindPlace pop() {
    if (depth_ == 0) {
      broken_ = true;
      return {};
    }
    return places_[--depth_];
  }
  UnwindPlace result() { return broken_ ? UnwindPlace{} : pop(); }

 private:
  static constexpr int kDepth = 16;
  UnwindPlace places_[kDepth];
  int depth_ = 0;
  bool broken_ = false;
};

void deref(PlaceStack& stack) {
  UnwindPlace place = stack.pop();
  if (place.in_memory || is_number(place)) {
    place = {};
  }
  place.in_memory = place.base != UnwindPlace::Base::kUnknown;
  stack.push(place);
}

// False: not understood.
bool apply(uint8_t operation, UnwindBytes& operands, uint64_t pc, PlaceStack& stack) {
  if (operation >= kLit0 && operation <= kLit31) {
    stack.push(number(operation - kLit0));
  } else if (operation >= kBreg0 && operation <= kBreg31) {
    stack.push(of_register(operation - kBreg0, operands.sleb(), pc));
  } else if (operation >= kConst1u && operation <= kConsts) {
    stack.push(number(constant(operation, operands)));
  } else if (operation == kDeref) {
    deref(stack);
  } else if (operation == kPlusUconst) {
    stack.push(plus(stack.pop(), number(static_cast<int64_t>(operands.uleb()))));
  } else if (operation == kDup) {
    const UnwindPlace top = stack.pop();
    stack.push(top);
    stack.push(top);
  } else if (operation == kDrop) {
    stack.pop();
  } else if (operation == kSwap) {
    const UnwindPlace top = stack.pop();
    const UnwindPlace below = stack.pop();
    stack.push(top);
    stack.push(below);
  } else if (operation >= kAnd && operation <= kNe) {
    const UnwindPlace b = stack.pop();
    const UnwindPlace a = stack.pop();
    stack.push(of_two(operation, a, b));
  } else {
    return operation == kNop;
  }
  return true;
}

}  // namespace

// Jumps are among what is not understood, so this ends with the bytes.
UnwindPlace evaluate_expression(UnwindBytes expression, uint64_t pc, bool with_cfa) noexcept {
  PlaceStack stack;
  if (with_cfa) {
    stack.push({UnwindPlace::Base::kCfa, false, 0});
  }
  while (!expression.empty()) {
    const auto operation = expression.read<uint8_t>();
    if (!apply(operation, expression, pc, stack) || !expression.ok()) {
      return {};
    }
  }
  return expression.ok() ? stack.result() : UnwindPlace{};
}

}  // namespace traintrace
