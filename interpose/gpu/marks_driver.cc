#include "interpose/gpu/marks_driver.h"

// cuda.h renames functions by macros, calls.def wants their names.
#define __CUDA_API_VERSION_INTERNAL  // NOLINT(bugprone-reserved-identifier)
#include <cuda.h>

#include "interpose/base/files.h"
#include "interpose/calls/open_call.h"
#include "interpose/gpu/marks.h"
#include "interpose/gpu/marks_file.h"
#include "interpose/gpu/own_gpu.h"
#include "interpose/life/facts.h"
#include "interpose/life/told.h"

namespace traintrace {
namespace {

constinit decltype(&cuStreamWriteValue32_v2) g_stream_write_value = nullptr;
constinit format::MarkWords* g_words = nullptr;
constinit CUdeviceptr g_device_words = 0;

bool may_write(ThreadState& thread, uint64_t stream) {
  const StreamState state = own_gpu_stream(thread, stream, g_words);
  if (state == StreamState::kContextEnded) {
    marks_turn_off(thread, "the context that the memory was pinned in has ended");
  }
  return state == StreamState::kFree;
}

bool write(ThreadState& thread, uint64_t stream, const uint32_t& word, uint32_t value) {
  const auto offset = reinterpret_cast<const char*>(&word) - reinterpret_cast<const char*>(g_words);
  const OwnCall own(thread);
  return g_stream_write_value(reinterpret_cast<CUstream>(stream),
                              g_device_words + static_cast<size_t>(offset), value,
                              CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS;
}

// Null: marks are on.
const char* turn_on(ThreadState& thread) {
  if (g_tables.progress == nullptr) {
    return "there was no room for its tables";
  }
  if (!find_own_gpu("cuStreamWriteValue32_v2", g_stream_write_value)) {
    return "the driver lacks a function that it needs";
  }
  g_words = marks_file_create(thread);
  if (g_words == nullptr) {
    return "no file in memory could be made";
  }
  g_device_words = own_gpu_pin(thread, g_words, marks_words_bytes());
  if (g_device_words == 0) {
    marks_file_remove();
    return "the driver refused to pin memory";
  }
  marks_turn_on({may_write, write}, g_words, own_gpu_device());
  return nullptr;
}

}  // namespace

void marks_decide(ThreadState& thread, const char* against) noexcept {
  against = against ? against : turn_on(thread);
  ShortText value;
  if (against) {
    value << "observe: " << against;
  } else {
    value << "marks";
  }
  write_fact(thread, "gpu-progress", value.c_str());
  if (against) {
    tell_refused(format::Setting::GpuProgress, "progress is only observed", against);
  }
}

}  // namespace traintrace
