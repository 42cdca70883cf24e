#include "analyzer/detectors/device/xid_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace traintrace {
namespace {

struct XidRow {
  int64_t number;
  Severity severity;
  const char* meaning;
};
constexpr XidRow kXids[] = {
#define TT_XID(number, severity, meaning) {number, Severity::k##severity, meaning},
#include "analyzer/telemetry/xids.def"
};

const XidRow* row_of_xid(int64_t xid) {
  const auto* const row = std::find_if(std::begin(kXids), std::end(kXids),
                                       [&](const XidRow& each) { return each.number == xid; });
  return row == std::end(kXids) ? nullptr : row;
}

}  // namespace

Severity severity_of_xid(int64_t xid) {
  const XidRow* const row = row_of_xid(xid);
  return row == nullptr ? Severity::kWarning : row->severity;
}

std::string xid_text(int64_t xid) {
  const XidRow* const row = row_of_xid(xid);
  return row == nullptr ? fmt::format("Xid {}", xid)
                        : fmt::format("Xid {} ({})", xid, row->meaning);
}

}  // namespace traintrace
