// How the values of calls are written and read, by the formats of format/fields.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace traintrace {

enum class ValueFormat : uint8_t {
  kHex,
  kDecimal,
  kSigned,
  kBytes,
  kDataType,
  kRedOp,
  kCommunicator,  // printed as its number here; the caller knows its name
  kGrid,
  kCopyKind,
  kCudaType,
  kResult,
  kRange,   // as kCommunicator; what follows `=` in the text is the name, for people
  kText,    // hex; what follows `=` are the 8 characters, for people
  kReal,    // with a point or an exponent; what is not finite as hex
  kFloats,  // "FIRST/SECOND"; what is not finite as hex
};
ValueFormat value_format(std::string_view name);  // an unknown name is hex

void append_value(std::string& out, ValueFormat format, uint64_t value);
// Whatever append_value writes, and plain numbers.
std::optional<uint64_t> parse_value(ValueFormat format, std::string_view text);

// "Not done yet" is an answer.  `library` as CallSchema has it, here and below.
bool is_failure(std::string_view library, int32_t result);
void append_result(std::string& out, std::string_view library, int32_t result);
std::string result_text(std::string_view library, int32_t result);  // the same
std::optional<int32_t> parse_result(std::string_view text);

std::string data_type_name(int type);  // float32; the number if it is not known
std::string reduction_name(int reduction);

}  // namespace traintrace
