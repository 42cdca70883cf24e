#include "analyzer/numbers/scalar_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Of IEEE 754.
struct FloatForm {
  uint64_t bytes;
  int mantissa_bits;
  uint64_t bias;

  uint64_t exponent_mask() const { return 2 * bias + 1; }
  uint64_t exponent(uint64_t bits) const { return bits >> mantissa_bits & exponent_mask(); }
  uint64_t infinity() const { return exponent_mask() << mantissa_bits; }
  uint64_t sign() const { return uint64_t{1} << (bytes * 8 - 1); }
};
constexpr FloatForm kForms[] = {{4, 23, 127}, {8, 52, 1023}};

const FloatForm* form_of(uint64_t bytes) {
  return bytes == 4 ? &kForms[0] : bytes == 8 ? &kForms[1] : nullptr;
}

// Infinities, the quiet NaN of processors (x86 sets its sign), and CUDA's, which has all bits.
bool is_nonfinite(const FloatForm& form, uint64_t bits) {
  const uint64_t magnitude = bits & ~form.sign();
  const uint64_t quiet = form.infinity() | uint64_t{1} << (form.mantissa_bits - 1);
  return magnitude == form.infinity() || magnitude == quiet || magnitude == form.sign() - 1;
}

enum class Looks : uint8_t { kLikeFloat, kLikeOther, kLikeEither };

Looks looks(const FloatForm& form, uint64_t bits) {
  if ((bits & ~form.sign()) == 0 || is_nonfinite(form, bits)) {
    return Looks::kLikeEither;
  }
  const uint64_t exponent = form.exponent(bits);
  const auto most = static_cast<uint64_t>(kLikelyExponent);
  return exponent + most >= form.bias && exponent <= form.bias + most ? Looks::kLikeFloat
                                                                      : Looks::kLikeOther;
}

// Large integers that are close to each other would look like floats that hardly change.
class Spread {
 public:
  explicit Spread(const FloatForm& form) : form_(form) {}
  void add(uint64_t bits) {
    least_ = std::min(least_, bits & ~form_.sign());
    most_ = std::max(most_, bits & ~form_.sign());
  }
  bool is_wide() const { return most_ - least_ >= uint64_t{1} << (form_.mantissa_bits - 11); }

 private:
  const FloatForm& form_;
  uint64_t least_ = ~uint64_t{0};
  uint64_t most_ = 0;
};

TypeOfSeries type_of_floats(std::span<const uint64_t> values, const FloatForm& form) {
  TypeOfSeries found{ScalarType::kUnknown, values.size()};
  size_t like_floats = 0;
  Spread spread(form);
  for (size_t i = 0; i < values.size(); ++i) {
    if (like_floats >= kFewestOfType && spread.is_wide()) {
      found.proven_from = std::min(found.proven_from, i);
    }
    const Looks each = looks(form, values[i]);
    if (each == Looks::kLikeOther) {
      return {ScalarType::kUnknown, values.size()};
    }
    if (each == Looks::kLikeFloat) {
      ++like_floats;
      spread.add(values[i]);
    }
  }
  if (like_floats != 0) {
    found.type = form.bytes == 4 ? ScalarType::kFloat32 : ScalarType::kFloat64;
  }
  return found;
}

int64_t as_integer(uint64_t bits, uint64_t bytes) {
  return bytes == 4   ? static_cast<int32_t>(static_cast<uint32_t>(bits))
         : bytes == 1 ? static_cast<int64_t>(bits & 0xff)
                      : static_cast<int64_t>(bits);
}

// Larger ones may as well be something else.
bool are_integers(std::span<const uint64_t> values, uint64_t bytes) {
  const int64_t most = bytes == 4 ? int64_t{1} << 24 : int64_t{1} << 53;
  return std::all_of(values.begin(), values.end(), [&](uint64_t bits) {
    const int64_t integer = as_integer(bits, bytes);
    return integer > -most && integer < most;
  });
}

std::string float_text(double number, ScalarType type) {
  return std::isnan(number)             ? "NaN"
         : std::isinf(number)           ? (number > 0 ? "Inf" : "-Inf")
         : type == ScalarType::kFloat32 ? fmt::format("{}", static_cast<float>(number))
                                        : fmt::format("{}", number);
}

}  // namespace

std::string_view name_of(ScalarType type) {
  constexpr std::string_view kNames[] = {"unknown", "flag", "integer", "float32", "float64"};
  return kNames[static_cast<size_t>(type)];
}

TypeOfSeries type_of_series(std::span<const uint64_t> values, uint64_t bytes) {
  if (bytes == 1) {
    const bool flags =
        std::all_of(values.begin(), values.end(), [](uint64_t bits) { return bits <= 1; });
    return {flags ? ScalarType::kFlag : ScalarType::kInteger, values.size()};
  }
  const FloatForm* const form = form_of(bytes);
  if (form == nullptr) {
    return {ScalarType::kUnknown, values.size()};
  }
  const TypeOfSeries found = type_of_floats(values, *form);
  return found.type == ScalarType::kUnknown && are_integers(values, bytes)
             ? TypeOfSeries{ScalarType::kInteger, values.size()}
             : found;
}

bool is_nonfinite(ScalarType type, uint64_t bits) {
  return (type == ScalarType::kFloat32 && is_nonfinite(kForms[0], bits)) ||
         (type == ScalarType::kFloat64 && is_nonfinite(kForms[1], bits));
}

double number_of(ScalarType type, uint64_t bits, uint64_t bytes) {
  switch (type) {
    case ScalarType::kFloat32:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case ScalarType::kFloat64:
      return std::bit_cast<double>(bits);
    case ScalarType::kFlag:
    case ScalarType::kInteger:
      return static_cast<double>(as_integer(bits, bytes));
    case ScalarType::kUnknown:
      return 0;
  }
  return 0;
}

std::string scalar_text(ScalarType type, uint64_t bits, uint64_t bytes) {
  switch (type) {
    case ScalarType::kFloat32:
    case ScalarType::kFloat64:
      return float_text(number_of(type, bits, bytes), type);
    case ScalarType::kFlag:
    case ScalarType::kInteger:
      return std::to_string(as_integer(bits, bytes));
    case ScalarType::kUnknown:
      return fmt::format("0x{:0{}x}", bits, 2 * std::min<uint64_t>(bytes, 8));
  }
  return "";
}

}  // namespace traintrace
