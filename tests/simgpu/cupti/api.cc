// The calls of the activity API.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "common/entry.h"
#include "cupti/activities.h"

using namespace simgpu;

namespace {

// SIMGPU_CUPTI_FLUSH_US=N
int64_t flush_us() {
  static const int64_t us = [] {
    const char* const text = getenv("SIMGPU_CUPTI_FLUSH_US");
    return text != nullptr ? strtoll(text, nullptr, 10) : 0;
  }();
  return us;
}

bool is_kind(CUpti_ActivityKind kind) {
  return kind > CUPTI_ACTIVITY_KIND_INVALID && kind < CUPTI_ACTIVITY_KIND_COUNT;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  SIMGPU_ENTER(CUptiResult);
  if (version == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  SIMGPU_ENTER(CUptiResult);
  if (requested == nullptr || completed == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  activities().set_callbacks(requested, completed);
  return CUPTI_SUCCESS;
}

// SIMGPU_DIFFERS(cuptiActivityEnable): records of kernels, copies, sets, calls that wait and of
// flushing are written; other kinds are accepted, and there are none of them.
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  SIMGPU_ENTER(CUptiResult);
  if (!is_kind(kind)) {
    return CUPTI_ERROR_INVALID_KIND;
  }
  if (!trace_driver()) {
    return CUPTI_ERROR_NOT_INITIALIZED;
  }
  activities().enable(kind, true);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  SIMGPU_ENTER(CUptiResult);
  if (!is_kind(kind)) {
    return CUPTI_ERROR_INVALID_KIND;
  }
  activities().enable(kind, false);
  return CUPTI_SUCCESS;
}

// SIMGPU_DIFFERS(cuptiActivityFlushAll): a record is written when its work is done, so that there
// are none to be forced.
CUptiResult cuptiActivityFlushAll(uint32_t) {
  SIMGPU_ENTER(CUptiResult);
  if (!activities().has_callbacks()) {
    return CUPTI_ERROR_INVALID_OPERATION;
  }
  const Overhead overhead(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH);
  activities().flush();
  std::this_thread::sleep_for(std::chrono::microseconds(flush_us()));
  return CUPTI_SUCCESS;
}

// SIMGPU_DIFFERS(cuptiActivityFlushPeriod): full buffers are handed over at once anyway.
CUptiResult cuptiActivityFlushPeriod(uint32_t) {
  SIMGPU_ENTER(CUptiResult);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                       CUpti_Activity** record) {
  SIMGPU_ENTER(CUptiResult);
  if (buffer == nullptr || record == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<uint8_t*>(*record) + bytes_of((*record)->kind);
  }
  if (next >= buffer + valid_bytes) {
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  }
  auto* const found = reinterpret_cast<CUpti_Activity*>(next);
  if (bytes_of(found->kind) == 0) {
    return CUPTI_ERROR_INVALID_KIND;
  }
  *record = found;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  SIMGPU_ENTER(CUptiResult);
  if (dropped == nullptr) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  *dropped = activities().take_dropped();
  return CUPTI_SUCCESS;
}

}  // extern "C"
