#include "analyzer/importers/logs/dcgm_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace traintrace {
namespace {

constexpr DcgmField kDcgmFields[] = {
#define TT_DCGM(name, column, reading, scale) \
  {"DCGM_FI_DEV_" #name, column, GpuReading::k##reading, scale},
#include "analyzer/importers/logs/dcgm_fields.def"
};

template <class Match>
const DcgmField* find_field(const Match& match) {
  const auto* const found = std::find_if(std::begin(kDcgmFields), std::end(kDcgmFields), match);
  return found == std::end(kDcgmFields) ? nullptr : found;
}

// DCGM_INT64_BLANK, DCGM_FP64_BLANK and those above, which say why it is blank (dcgm_structs.h).
bool is_blank(double value) {
  constexpr double kBlankInteger = 0x1p63;  // what 0x7ffffffffffffff0 and more are as doubles
  constexpr double kBlankReal = 140737488355328.0;
  constexpr double kReasons = 16;
  return value == kBlankInteger || (value >= kBlankReal && value < kBlankReal + kReasons);
}

}  // namespace

const DcgmField* dcgm_field_exported(std::string_view name) {
  return find_field([&](const DcgmField& field) { return field.exported == name; });
}

const DcgmField* dcgm_field_of_column(std::string_view column) {
  return column.empty()
             ? nullptr
             : find_field([&](const DcgmField& field) { return field.column == column; });
}

DcgmValue dcgm_value(std::string_view text) {
  if (text == "N/A" || text == "NaN") {
    return {};
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !(value >= 0)) {
    return {false, std::nullopt};
  }
  return is_blank(value) ? DcgmValue{} : DcgmValue{true, value};
}

std::optional<int64_t> dcgm_reading(const DcgmField& field, double value) {
  constexpr double kMostReading = 1e18;
  const double scaled = value * field.scale;
  return scaled <= kMostReading ? std::optional<int64_t>(std::llround(scaled)) : std::nullopt;
}

std::optional<int64_t> DcgmXids::take(std::optional<double> value) {
  constexpr double kMostXid = 100'000;
  const int64_t now = value && *value < kMostXid ? std::llround(*value) : 0;
  const bool is_new = last_ && *last_ != now && now > 0;
  last_ = now;
  return is_new ? std::optional(now) : std::nullopt;
}

}  // namespace traintrace
