#include "analyzer/text/values.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>
#include <string>

#include "analyzer/text/words.h"

namespace traintrace {
namespace {

constexpr std::string_view kDataTypes[] = {"int8",    "uint8",    "int32",      "uint32",
                                           "int64",   "uint64",   "float16",    "float32",
                                           "float64", "bfloat16", "float8e4m3", "float8e5m2"};
constexpr std::string_view kReductions[] = {"sum", "prod", "max", "min", "avg"};
constexpr std::string_view kCopyKinds[] = {"h2h", "h2d", "d2h", "d2d", "default"};
// cudaDataType; those that no product of matrices has here have no name.
constexpr std::string_view kCudaTypes[] = {"float32",
                                           "float64",
                                           "float16",
                                           "int8",
                                           "",
                                           "",
                                           "",
                                           "",
                                           "uint8",
                                           "",
                                           "int32",
                                           "",
                                           "uint32",
                                           "",
                                           "bfloat16",
                                           "",
                                           "int4",
                                           "",
                                           "uint4",
                                           "",
                                           "int16",
                                           "",
                                           "uint16",
                                           "",
                                           "int64",
                                           "",
                                           "uint64",
                                           "",
                                           "float8e4m3",
                                           "float8e5m2",
                                           "float8ue8m0",
                                           "float6e2m3",
                                           "float6e3m2",
                                           "float4e2m1"};
// cublasStatus_t
constexpr std::string_view kCublasResults[] = {"CUBLAS_STATUS_SUCCESS",
                                               "CUBLAS_STATUS_NOT_INITIALIZED",
                                               "",
                                               "CUBLAS_STATUS_ALLOC_FAILED",
                                               "",
                                               "",
                                               "",
                                               "CUBLAS_STATUS_INVALID_VALUE",
                                               "CUBLAS_STATUS_ARCH_MISMATCH",
                                               "",
                                               "",
                                               "CUBLAS_STATUS_MAPPING_ERROR",
                                               "",
                                               "CUBLAS_STATUS_EXECUTION_FAILED",
                                               "CUBLAS_STATUS_INTERNAL_ERROR",
                                               "CUBLAS_STATUS_NOT_SUPPORTED",
                                               "CUBLAS_STATUS_LICENSE_ERROR"};
constexpr std::string_view kNcclResults[] = {
    "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
    "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress"};

struct ResultRow {
  int32_t code;
  std::string_view runtime;
  std::string_view driver;
};
constexpr ResultRow kResults[] = {
#define TT_RESULT(code, runtime, driver) {code, runtime, driver},
#include "analyzer/text/results.def"
};

void append_signed(std::string& out, int64_t value) {
  if (value < 0) {
    out += '-';
  }
  append_unsigned(out, value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value));
}

void append_name(std::string& out, std::span<const std::string_view> names, uint64_t value) {
  if (value < names.size() && !names[value].empty()) {
    out += names[value];
  } else {
    append_signed(out, static_cast<int64_t>(value));
  }
}

std::optional<uint64_t> parse_number(std::string_view text) {
  if (const auto value = parse_unsigned(text)) {
    return value;
  }
  if (const auto value = parse_signed(text)) {
    return static_cast<uint64_t>(*value);
  }
  return std::nullopt;
}

std::optional<uint64_t> parse_name(std::span<const std::string_view> names, std::string_view text) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text && !text.empty()) {
      return i;
    }
  }
  return parse_number(text);
}

// x 32 bits, y 16, z 16.
void append_grid(std::string& out, uint64_t value) {
  append_unsigned(out, value & 0xffffffff);
  out += 'x';
  append_unsigned(out, value >> 32 & 0xffff);
  out += 'x';
  append_unsigned(out, value >> 48);
}

std::optional<uint64_t> parse_grid(std::string_view text) {
  // 0x10 is a number; 0x10x1 is a grid of no blocks, a launch that fails.
  const size_t first = text.find('x');
  const size_t second = text.find('x', first == text.npos ? text.size() : first + 1);
  if (second == text.npos) {
    return first == text.npos || text.starts_with("0x") ? parse_number(text) : std::nullopt;
  }
  const auto x = parse_unsigned(text.substr(0, first));
  const auto y = parse_unsigned(text.substr(first + 1, second - first - 1));
  const auto z = parse_unsigned(text.substr(second + 1));
  if (!x || !y || !z || *x > 0xffffffff || *y > 0xffff || *z > 0xffff) {
    return std::nullopt;
  }
  return *x | *y << 32 | *z << 48;
}

void append_real(std::string& out, uint64_t value) {
  const auto number = std::bit_cast<double>(value);
  if (!std::isfinite(number)) {
    return append_hex(out, value);
  }
  const std::string text = fmt::format("{}", number);
  out += text;
  out += text.find_first_of(".e") == text.npos ? ".0" : "";
}

std::optional<uint64_t> parse_real(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  if (text.starts_with("0x") || text.find_first_of(".e") == text.npos) {
    return parse_number(text);
  }
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(std::bit_cast<uint64_t>(number))
                                             : std::nullopt;
}

void append_floats(std::string& out, uint64_t value) {
  const auto first = std::bit_cast<float>(static_cast<uint32_t>(value));
  const auto second = std::bit_cast<float>(static_cast<uint32_t>(value >> 32));
  if (std::isfinite(first) && std::isfinite(second)) {
    fmt::format_to(std::back_inserter(out), "{}/{}", first, second);
  } else {
    append_hex(out, value);
  }
}

std::optional<uint32_t> parse_float(std::string_view text) {
  float number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(std::bit_cast<uint32_t>(number))
                                             : std::nullopt;
}

std::optional<uint64_t> parse_floats(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == text.npos) {
    return parse_number(text);
  }
  const auto first = parse_float(text.substr(0, slash));
  const auto second = parse_float(text.substr(slash + 1));
  return first && second ? std::optional(*first | uint64_t{*second} << 32) : std::nullopt;
}

}  // namespace

ValueFormat value_format(std::string_view name) {
  constexpr std::string_view kNames[] = {"hex",    "decimal",      "signed", "bytes",    "datatype",
                                         "redop",  "communicator", "grid",   "copykind", "cudatype",
                                         "result", "range",        "text",   "real",     "floats"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) {
      return static_cast<ValueFormat>(i);
    }
  }
  return ValueFormat::kHex;
}

void append_value(std::string& out, ValueFormat format, uint64_t value) {
  switch (format) {
    case ValueFormat::kHex:
    case ValueFormat::kText:
      return append_hex(out, value);
    case ValueFormat::kDecimal:
    case ValueFormat::kBytes:
    case ValueFormat::kCommunicator:
    case ValueFormat::kRange:
      return append_unsigned(out, value);
    case ValueFormat::kSigned:
    case ValueFormat::kResult:
      return append_signed(out, static_cast<int64_t>(value));
    case ValueFormat::kDataType:
      return append_name(out, kDataTypes, value);
    case ValueFormat::kRedOp:
      return append_name(out, kReductions, value);
    case ValueFormat::kGrid:
      return append_grid(out, value);
    case ValueFormat::kCopyKind:
      return append_name(out, kCopyKinds, value);
    case ValueFormat::kCudaType:
      return append_name(out, kCudaTypes, value);
    case ValueFormat::kReal:
      return append_real(out, value);
    case ValueFormat::kFloats:
      return append_floats(out, value);
  }
}

std::optional<uint64_t> parse_value(ValueFormat format, std::string_view text) {
  switch (format) {
    case ValueFormat::kDataType:
      return parse_name(kDataTypes, text);
    case ValueFormat::kRedOp:
      return parse_name(kReductions, text);
    case ValueFormat::kCopyKind:
      return parse_name(kCopyKinds, text);
    case ValueFormat::kCudaType:
      return parse_name(kCudaTypes, text);
    case ValueFormat::kGrid:
      return parse_grid(text);
    case ValueFormat::kReal:
      return parse_real(text);
    case ValueFormat::kFloats:
      return parse_floats(text);
    case ValueFormat::kRange:
    case ValueFormat::kText:
      return parse_number(text.substr(0, text.find('=')));
    default:
      return parse_number(text);
  }
}

void append_result(std::string& out, std::string_view library, int32_t result) {
  if (library == "nccl") {
    return append_name(out, kNcclResults, static_cast<uint64_t>(int64_t{result}));
  }
  if (library == "cublas" || library == "cublaslt") {
    return append_name(out, kCublasResults, static_cast<uint64_t>(int64_t{result}));
  }
  for (const ResultRow& row : kResults) {
    const std::string_view name = library == "driver" ? row.driver : row.runtime;
    if (row.code == result && !name.empty()) {
      out += name;
      return;
    }
  }
  append_signed(out, result);
}

bool is_failure(std::string_view library, int32_t result) {
  const bool not_yet = library == "nccl"                             ? result == 7    // InProgress
                       : library == "runtime" || library == "driver" ? result == 600  // NotReady
                                                                     : false;
  return result != 0 && !not_yet;
}

std::string result_text(std::string_view library, int32_t result) {
  std::string text;
  append_result(text, library, result);
  return text;
}

std::optional<int32_t> parse_result(std::string_view text) {
  for (const ResultRow& row : kResults) {
    if (!text.empty() && (text == row.runtime || text == row.driver)) {
      return row.code;
    }
  }
  const bool is_cublas = text.starts_with("CUBLAS_");
  const auto value = is_cublas ? parse_name(kCublasResults, text) : parse_name(kNcclResults, text);
  if (!value || static_cast<int64_t>(*value) != static_cast<int32_t>(*value)) {
    return std::nullopt;
  }
  return static_cast<int32_t>(*value);
}

std::string data_type_name(int type) {
  std::string name;
  append_name(name, kDataTypes, static_cast<uint64_t>(int64_t{type}));
  return name;
}

std::string reduction_name(int reduction) {
  std::string name;
  append_name(name, kReductions, static_cast<uint64_t>(int64_t{reduction}));
  return name;
}

}  // namespace traintrace
