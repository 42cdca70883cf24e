// Other profilers of this process (PyTorch's, say), as they come to CUPTI.  Where they come by
// another way than the loader's, as a CUPTI that is linked into them does, they find its place
// taken.
#include "interpose/calls/elf_next.h"
#include "interpose/calls/symbols.h"
#include "interpose/gpu/cupti_api.h"
#include "interpose/gpu/gpu_timeline.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constinit cupti::BufferCompleted* g_completed = nullptr;

// A buffer of ours that was not full when they came is handed to them, who would free it.
void completed(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes) {
  cupti::BufferCompleted* const theirs = load(g_completed);
  if (!gpu_buffer_completed(context, stream, buffer, valid_bytes) && theirs != nullptr) {
    theirs(context, stream, buffer, bytes, valid_bytes);
  }
}

template <class Function>
Function* next_of(Export function) {
  return reinterpret_cast<Function*>(definition_elsewhere(name_of(symbol_of(function))));
}

}  // namespace

extern "C" {
// Called what exports.def says.  NOLINTBEGIN(*-identifier-naming,*-reserved-identifier)

int tt_hook_cuptiSubscribe(void** subscriber, void* callback, void* user) {
  gpu_timeline_give_way();
  auto* const next = next_of<int(void**, void*, void*)>(Export::cuptiSubscribe);
  return next != nullptr ? next(subscriber, callback, user) : cupti::kNotInitialized;
}

int tt_hook_cuptiSubscribe_v2(void** subscriber, void* callback, void* user, void* parameters) {
  gpu_timeline_give_way();
  auto* const next = next_of<int(void**, void*, void*, void*)>(Export::cuptiSubscribe_v2);
  return next != nullptr ? next(subscriber, callback, user, parameters) : cupti::kNotInitialized;
}

int tt_hook_cuptiActivityRegisterCallbacks(cupti::BufferRequested* requested,
                                           cupti::BufferCompleted* theirs) {
  gpu_timeline_give_way();
  auto* const next = next_of<int(cupti::BufferRequested*, cupti::BufferCompleted*)>(
      Export::cuptiActivityRegisterCallbacks);
  if (next == nullptr) {
    return cupti::kNotInitialized;
  }
  if (!gpu_timeline_has_buffers() || theirs == nullptr) {
    return next(requested, theirs);
  }
  publish(g_completed, theirs);
  return next(requested, completed);
}

// NOLINTEND(*-identifier-naming,*-reserved-identifier)
}  // extern "C"

}  // namespace traintrace
