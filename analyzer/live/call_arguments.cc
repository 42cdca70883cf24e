#include "analyzer/live/call_arguments.h"

#include <dwarf.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "analyzer/text/values.h"
#include "format/schema.h"

namespace traintrace {
namespace {

struct Numbered {
  int8_t parameter = -1;  // none: no argument, or not by itself
  format::Field field = format::Field::Value;
};

struct Call {
  std::string_view function;
  Numbered fields[format::kMaxFields];
};

constexpr Numbered kNone;

#define IN(i, name)        \
  Numbered {               \
    i, format::Field::name \
  }
#define IN3(i, name) kNone
#define OUT(i, name) kNone
#define MEMBER(i, member, name) kNone
#define MEMBER3(i, member, name) kNone
#define OUT_MEMBER(i, member, name) kNone
#define PART(i, member, name) kNone
#define SUM(i, n, name) kNone
#define EXTENTS(i, n, type, name) kNone
#define COMM(i) kNone
#define IS(value, name) kNone
#define LAYOUTS(a, b, d) kNone
#define TT_CALL(library, kind, function, ...) {#function, {__VA_ARGS__}},
#define TT_CALL_PTSZ(library, kind, function, ...) \
  {#function, {__VA_ARGS__}}, {#function "_ptsz", {__VA_ARGS__}},
#define TT_CALL_PTDS(library, kind, function, ...) \
  {#function, {__VA_ARGS__}}, {#function "_ptds", {__VA_ARGS__}},
#define TT_CALL_AS(library, kind, exported, typed, ...) {#exported, {__VA_ARGS__}},

constexpr Call kCalls[] = {
#include "format/calls.def"
};

#undef IN
#undef IN3
#undef OUT
#undef MEMBER
#undef MEMBER3
#undef OUT_MEMBER
#undef PART
#undef SUM
#undef EXTENTS
#undef COMM
#undef IS
#undef LAYOUTS

#if defined(__x86_64__)
constexpr int kArgumentRegisters[] = {5, 4, 1, 2, 8, 9};  // rdi rsi rdx rcx r8 r9
#elif defined(__aarch64__)
constexpr int kArgumentRegisters[] = {0, 1, 2, 3, 4, 5, 6, 7};
#endif

// A number of the expression, without memory: that may have changed since the call.
class Evaluation {
 public:
  explicit Evaluation(const LiveFrame& frame) : frame_(frame) {}

  std::optional<uint64_t> value_of(const Dwarf_Op* operations, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (!step(operations[i])) {
        return std::nullopt;
      }
    }
    return stack_.size() == 1 ? std::optional(stack_.back()) : std::nullopt;
  }

 private:
  bool step(const Dwarf_Op& operation) {
    const uint8_t atom = operation.atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) {
      return push(atom - DW_OP_lit0);
    }
    if (atom >= DW_OP_const1u && atom <= DW_OP_consts) {
      return push(operation.number);
    }
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) {
      const size_t number = atom - DW_OP_breg0;
      return number < frame_.registers.size() && frame_.registers[number] &&
             push(*frame_.registers[number] + operation.number);
    }
    if (atom == DW_OP_plus_uconst && !stack_.empty()) {
      stack_.back() += operation.number;
      return true;
    }
    return stack_.size() >= 2 && combine(atom);
  }

  bool combine(uint8_t atom) {
    const uint64_t right = stack_.back();
    stack_.pop_back();
    uint64_t& left = stack_.back();
    switch (atom) {
      case DW_OP_plus:
        left += right;
        return true;
      case DW_OP_minus:
        left -= right;
        return true;
      case DW_OP_mul:
        left *= right;
        return true;
      case DW_OP_and:
        left &= right;
        return true;
      case DW_OP_shl:
        left = right < 64 ? left << right : 0;
        return true;
      default:
        return false;
    }
  }

  bool push(uint64_t value) {
    stack_.push_back(value);
    return true;
  }

  const LiveFrame& frame_;
  std::vector<uint64_t> stack_;
};

std::optional<Dwarf_Addr> return_address(Dwarf_Die& site) {
  Dwarf_Attribute attribute;
  Dwarf_Addr address = 0;
  const unsigned name = dwarf_tag(&site) == DW_TAG_call_site ? DW_AT_call_return_pc : DW_AT_low_pc;
  if (dwarf_formaddr(dwarf_attr(&site, name, &attribute), &address) != 0) {
    return std::nullopt;
  }
  return address;
}

// Of what a damaged file says to lie below that; it may lead round in circles.
template <class Visit>
bool any_child(Dwarf_Die parent, Visit visit) {
  constexpr int kMost = 1 << 20;
  Dwarf_Die child;
  int count = 0;
  for (bool more = dwarf_child(&parent, &child) == 0; more && count < kMost;
       more = dwarf_siblingof(&child, &child) == 0, ++count) {
    if (visit(child)) {
      return true;
    }
  }
  return false;
}

struct SiteSearch {
  Dwarf_Addr address;  // where the call returns to, in the file
  Dwarf_Die found;
  int left = 1 << 22;  // entries to look at
};

bool find_site(const Dwarf_Die& parent, int depth, SiteSearch& search) {
  constexpr int kDeepest = 64;
  if (depth == kDeepest) {
    return false;
  }
  bool found = false;
  any_child(parent, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    if (tag != DW_TAG_call_site && tag != DW_TAG_GNU_call_site) {
      found = find_site(child, depth + 1, search);
    } else if (return_address(child) == search.address) {
      search.found = child;
      found = true;
    }
    return found || --search.left < 0;
  });
  return found;
}

// The function that is called there, by its declaration; nothing for calls through pointers.
bool find_callee(Dwarf_Die& site, Dwarf_Die& callee) {
  Dwarf_Attribute attribute;
  const unsigned name =
      dwarf_tag(&site) == DW_TAG_call_site ? DW_AT_call_origin : DW_AT_abstract_origin;
  return dwarf_formref_die(dwarf_attr(&site, name, &attribute), &callee) != nullptr;
}

struct Parameter {
  int register_number = 0;
  uint64_t bytes = 0;
};

// 0: that parameter does not lie in a register for whole numbers.
int bytes_in_register(Dwarf_Die& parameter) {
  Dwarf_Attribute attribute;
  Dwarf_Die type;
  if (dwarf_formref_die(dwarf_attr_integrate(&parameter, DW_AT_type, &attribute), &type) ==
          nullptr ||
      dwarf_peel_type(&type, &type) != 0) {
    return 0;
  }
  const int tag = dwarf_tag(&type);
  if (tag == DW_TAG_pointer_type) {
    return 8;
  }
  Dwarf_Word encoding = DW_ATE_signed;
  if (tag == DW_TAG_base_type) {
    dwarf_formudata(dwarf_attr(&type, DW_AT_encoding, &attribute), &encoding);
  } else if (tag != DW_TAG_enumeration_type) {
    return 0;
  }
  const int bytes = dwarf_bytesize(&type);
  return encoding == DW_ATE_float || bytes < 0 || bytes > 8 ? 0 : bytes;
}

// Those that lie in registers for whole numbers, up to the first that does not (System V psABI).
std::vector<Parameter> parameters_of(Dwarf_Die& function) {
  std::vector<Parameter> parameters;
  any_child(function, [&](Dwarf_Die& child) {
    if (dwarf_tag(&child) != DW_TAG_formal_parameter) {
      return false;
    }
    const int bytes = bytes_in_register(child);
    if (bytes > 0) {
      parameters.push_back({kArgumentRegisters[parameters.size()], static_cast<uint64_t>(bytes)});
    }
    return bytes == 0 || parameters.size() == std::size(kArgumentRegisters);
  });
  return parameters;
}

bool is_in_register(Dwarf_Die& value, int number) {
  Dwarf_Attribute attribute;
  Dwarf_Op* operations = nullptr;
  size_t count = 0;
  return dwarf_getlocation(dwarf_attr(&value, DW_AT_location, &attribute), &operations, &count) ==
             0 &&
         count == 1 && operations[0].atom == DW_OP_reg0 + number;
}

std::optional<uint64_t> passed(Dwarf_Die& site, const Parameter& parameter,
                               const LiveFrame& caller) {
  std::optional<uint64_t> result;
  any_child(site, [&](Dwarf_Die& value) {
    const bool modern = dwarf_tag(&value) == DW_TAG_call_site_parameter;
    if ((!modern && dwarf_tag(&value) != DW_TAG_GNU_call_site_parameter) ||
        !is_in_register(value, parameter.register_number)) {
      return false;
    }
    Dwarf_Attribute attribute;
    Dwarf_Op* operations = nullptr;
    size_t count = 0;
    const unsigned name = modern ? DW_AT_call_value : DW_AT_GNU_call_site_value;
    if (dwarf_getlocation(dwarf_attr(&value, name, &attribute), &operations, &count) == 0) {
      result = Evaluation(caller).value_of(operations, count);
    }
    return true;
  });
  return result;
}

uint64_t narrowed(uint64_t value, uint64_t bytes, ValueFormat format) {
  const auto unused = static_cast<unsigned>(64 - 8 * bytes);
  return format == ValueFormat::kSigned
             ? static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused)
             : value << unused >> unused;
}

}  // namespace

std::string call_arguments(Dwfl_Module* module, const LiveFrame& caller,
                           const std::string& function) {
  const auto* const call =
      std::find_if(std::begin(kCalls), std::end(kCalls),
                   [&](const Call& other) { return other.function == function; });
  Dwarf_Addr bias = 0;
  Dwarf_Die* const unit = dwfl_module_addrdie(module, caller.address - 1, &bias);
  Dwarf_Die callee;
  SiteSearch search = {caller.address - bias, {}};
  if (call == std::end(kCalls) || unit == nullptr || !find_site(*unit, 0, search) ||
      !find_callee(search.found, callee)) {
    return "";
  }
  const char* const name = dwarf_diename(&callee);
  if (name == nullptr || name != function) {
    return "";
  }
  const std::vector<Parameter> parameters = parameters_of(callee);
  std::string text;
  for (const Numbered& field : call->fields) {
    const format::FieldName& label = format::kFieldNames[static_cast<size_t>(field.field)];
    const ValueFormat form = value_format(label.format);
    if (field.parameter < 0 || form == ValueFormat::kHex ||
        static_cast<size_t>(field.parameter) >= parameters.size()) {
      continue;
    }
    const Parameter& parameter = parameters[static_cast<size_t>(field.parameter)];
    if (const std::optional<uint64_t> value = passed(search.found, parameter, caller)) {
      text += fmt::format("{}{}=", text.empty() ? "" : ", ", label.name);
      append_value(text, form, narrowed(*value, parameter.bytes, form));
    }
  }
  return text;
}

}  // namespace traintrace
