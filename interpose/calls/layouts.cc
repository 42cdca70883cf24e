#include "interpose/calls/layouts.h"

#include <unistd.h>

#include "interpose/base/files.h"
#include "interpose/calls/cublas_api.h"
#include "interpose/calls/open_call.h"
#include "interpose/calls/resolve.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

using cublas::Attribute;
using cublas::Layout;
using cublas::Status;
using format::Library;

constinit decltype(&cublas::get_attribute) g_get_attribute = nullptr;
// It may write a line into the job's output for each call of its own, ours too.
constinit bool g_may_log = false;

bool log_is_set() {
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    if (starts_with(*at, "CUBLASLT_LOG_")) {
      return true;
    }
  }
  return false;
}

template <class Value>
bool get(Layout layout, Attribute attribute, Value& value) {
  return g_get_attribute(layout, attribute, &value, sizeof value, nullptr) == Status::kSuccess;
}

bool read(Layout a, Layout b, Layout d, uint64_t (&shape)[6]) {
  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int32_t batch = 0;
  uint32_t types[2] = {};
  if (!get(d, Attribute::kRows, m) || !get(d, Attribute::kColumns, n) ||
      !get(d, Attribute::kBatch, batch) || !get(a, Attribute::kRows, rows) ||
      !get(a, Attribute::kColumns, columns) || !get(a, Attribute::kType, types[0]) ||
      !get(b, Attribute::kType, types[1])) {
    return false;
  }
  shape[0] = m;
  shape[1] = n;
  shape[2] = rows == m ? columns : rows;  // a may be transposed
  shape[3] = static_cast<uint64_t>(int64_t{batch});
  shape[4] = types[0];
  shape[5] = types[1];
  return true;
}

// A program that has it tell of calls, whichever.
Status set_logger(Export function, int value, const void* caller) {
  publish(g_may_log, true);
  const auto real = reinterpret_cast<decltype(&cublas::set_logger)>(
      original(Library::CublasLt, symbol_of(function), caller));
  return real != nullptr ? real(value) : Status::kNotSupported;
}

}  // namespace

void layouts_sought(Library library, void* handle) noexcept {
  if (library != Library::CublasLt || load(g_get_attribute) != nullptr) {
    return;
  }
  if (log_is_set()) {
    publish(g_may_log, true);
  }
  publish(g_get_attribute, reinterpret_cast<decltype(&cublas::get_attribute)>(
                               real_lookup(handle, "cublasLtMatrixLayoutGetAttribute")));
}

void read_layouts(ThreadState& thread, Layout a, Layout b, Layout d,
                  uint64_t (&shape)[6]) noexcept {
  for (uint64_t& each : shape) {
    each = 0;
  }
  shape[4] = shape[5] = kNoType;
  // Another copy may have made them, of another version.
  if (load(g_get_attribute) == nullptr || load(g_may_log) || a == nullptr || b == nullptr ||
      d == nullptr || !is_only_copy(Library::CublasLt)) {
    return;
  }
  const OwnCall own(thread);
  read(a, b, d, shape);
}

extern "C" {
// NOLINTBEGIN(*-identifier-naming)
Status tt_hook_cublasLtLoggerSetLevel(int level) {
  return set_logger(Export::cublasLtLoggerSetLevel, level, __builtin_return_address(0));
}

Status tt_hook_cublasLtLoggerSetMask(int mask) {
  return set_logger(Export::cublasLtLoggerSetMask, mask, __builtin_return_address(0));
}
// NOLINTEND(*-identifier-naming)
}  // extern "C"

}  // namespace traintrace
