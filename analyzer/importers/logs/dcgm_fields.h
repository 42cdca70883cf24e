// What DCGM calls the readings of a GPU: dcgm_fields.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "analyzer/telemetry/telemetry_line.h"

namespace traintrace {

struct DcgmField {
  std::string_view exported;  // "DCGM_FI_DEV_SM_CLOCK"
  std::string_view column;    // of dcgmi dmon: "SMCLK"; empty: not known
  GpuReading reading;
  double scale;  // to the reading's unit
};

// The last Xid of a GPU, a gauge; 0: none yet.
inline constexpr std::string_view kDcgmXidExported = "DCGM_FI_DEV_XID_ERRORS";
inline constexpr std::string_view kDcgmXidColumn = "XIDER";

// Null: it is none that telemetry has.
const DcgmField* dcgm_field_exported(std::string_view name);
const DcgmField* dcgm_field_of_column(std::string_view column);

// A value as DCGM's tools print it.
struct DcgmValue {
  bool is_number = true;        // false: it is damaged
  std::optional<double> value;  // nothing: the GPU does not say (N/A, NaN, DCGM's blank values)
};
DcgmValue dcgm_value(std::string_view text);

// Whole in the unit of the field's reading; nothing: it is more than a telemetry file may hold.
std::optional<int64_t> dcgm_reading(const DcgmField& field, double value);

// Xid events out of the gauge: it must be seen to change, so what it holds at first is none, which
// may be of a job before.
class DcgmXids {
 public:
  // The Xid that happened since the value before; nothing: none did.  `value`: nothing is none yet.
  std::optional<int64_t> take(std::optional<double> value);

 private:
  std::optional<int64_t> last_;
};

}  // namespace traintrace
