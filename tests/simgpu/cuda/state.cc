#include "cuda/state.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cuda/capture.h"
#include "cuda/context_memory.h"
#include "cuda/tracing.h"

namespace simgpu {
namespace {

std::atomic<bool> g_initialised{false};
std::atomic<bool> g_forked{false};
std::atomic<uint64_t> g_next_id{1};

thread_local std::vector<Context*> t_contexts;

// Default streams of this thread, one per context that it used them in.  Their work outlives the
// thread, and the context must still find it.
struct DefaultStreams {
  std::vector<std::pair<Context*, std::shared_ptr<Stream>>> all;
  ~DefaultStreams() {
    for (const auto& [owner, stream] : all) {
      retire(stream);
    }
  }
};
thread_local DefaultStreams t_default_streams;

std::shared_ptr<Stream> per_thread_stream(Context& context) {
  for (const auto& [owner, stream] : t_default_streams.all) {
    if (owner == &context) {
      return stream;
    }
  }
  std::shared_ptr<Stream> stream = new_stream(context, CU_STREAM_DEFAULT, 0);
  stream->handle = CU_STREAM_PER_THREAD;
  t_default_streams.all.emplace_back(&context, stream);
  return stream;
}

// SIMGPU_KERNELS: a library that gives kernels their bodies when it is loaded.
void load_bodies() {
  static std::once_flag& once = *new std::once_flag;
  std::call_once(once, [] {
    const char* file = getenv("SIMGPU_KERNELS");
    if (file && *file && !dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
      fprintf(stderr, "simgpu: SIMGPU_KERNELS: %s\n", dlerror());
    }
  });
}

void mark_forked() {
  g_forked.store(g_initialised.load());
}

}  // namespace

constinit thread_local bool t_per_thread_default = false;

// cuInit.  A process that was initialised before it forked cannot use CUDA in the child.
CUresult initialise() {
  if (g_forked.load()) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  if (device_count() == 0) {
    return CUDA_ERROR_NO_DEVICE;
  }
  static const int registered = pthread_atfork(nullptr, nullptr, mark_forked);
  static_cast<void>(registered);
  g_initialised.store(true);
  load_bodies();
  return CUDA_SUCCESS;
}

CUresult check_ready() {
  if (g_initialised.load(std::memory_order_acquire) && !g_forked.load(std::memory_order_relaxed)) {
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_INITIALIZED;
}

int device_count() {
  static const int count = [] {
    const char* text = getenv("SIMGPU_DEVICES");
    const int asked = text && *text ? atoi(text) : kDefaultDevices;
    if (asked < 0 || asked > kMaxDevices) {
      fprintf(stderr, "simgpu: SIMGPU_DEVICES: %s is not 0 to %d\n", text, kMaxDevices);
    }
    return std::clamp(asked, 0, kMaxDevices);
  }();
  return count;
}

bool valid_device(CUdevice device) {
  return device >= 0 && device < device_count();
}

Device& device_at(int ordinal) {
  static auto& devices = *[] {
    auto* all = new std::array<Device, kMaxDevices>;
    for (int i = 0; i < kMaxDevices; ++i) {
      (*all)[i].ordinal = i;
    }
    return all;
  }();
  return devices[ordinal];
}

std::vector<Context*>& context_stack() {
  return t_contexts;
}

Context* current_context() {
  return t_contexts.empty() ? nullptr : t_contexts.back();
}

void set_current_context(Context* context) {
  if (!t_contexts.empty()) {
    t_contexts.pop_back();
  }
  if (context) {
    t_contexts.push_back(context);
  }
}

Context* new_context(int device, unsigned flags, bool primary) {
  auto* context = new Context;  // lives for ever: a stale handle must be recognisable
  static std::mutex& mutex = *new std::mutex;
  static std::vector<Context*>& all = *new std::vector<Context*>;  // reachable, so not a leak
  {
    const std::lock_guard lock(mutex);
    all.push_back(context);
  }
  context->device = device;
  context->flags = flags;
  context->primary = primary;
  context->id = g_next_id.fetch_add(1);
  auto legacy = std::make_shared<Stream>();
  legacy->context = context;
  legacy->legacy = true;
  legacy->id = g_next_id.fetch_add(1);
  legacy->handle = CU_STREAM_LEGACY;
  legacy->queue = std::make_shared<Queue>(context->fault);
  context->legacy = legacy;
  return context;
}

void tear_down(Context& context) {
  context.alive = false;
  context.fault->cancelled = 1;
  for (const std::shared_ptr<Stream>& stream : streams_of(context)) {
    stream->queue->wait(stream->queue->issued());
  }
  release_memory(context);
}

CUresult check_context() {
  Context* context = current_context();
  if (!context) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!context->alive.load(std::memory_order_relaxed)) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  return static_cast<CUresult>(context->fault->error.load(std::memory_order_relaxed));
}

namespace {

void drop_idle_retired(Context& context, std::vector<std::shared_ptr<Stream>>& dropped) {
  for (std::shared_ptr<Stream>& stream : context.retired) {
    if (stream->queue->idle()) {
      dropped.push_back(std::move(stream));
    }
  }
  std::erase(context.retired, nullptr);
}

}  // namespace

void retire(const std::shared_ptr<Stream>& stream) {
  std::vector<std::shared_ptr<Stream>> dropped;  // destroyed after the lock is gone
  const std::lock_guard lock(stream->context->mutex);
  drop_idle_retired(*stream->context, dropped);
  if (!stream->queue->idle()) {
    stream->context->retired.push_back(stream);
  }
}

std::vector<std::shared_ptr<Stream>> streams_of(Context& context) {
  std::vector<std::shared_ptr<Stream>> dropped;
  const std::lock_guard lock(context.mutex);
  drop_idle_retired(context, dropped);
  std::vector<std::shared_ptr<Stream>> all = {context.legacy};
  std::erase_if(context.streams, [](const auto& stream) { return stream.expired(); });
  for (const std::weak_ptr<Stream>& weak : context.streams) {
    if (std::shared_ptr<Stream> stream = weak.lock()) {
      all.push_back(std::move(stream));
    }
  }
  return all;
}

CUresult synchronize(Context& context) {
  std::vector<Ticket> tickets;
  for (const std::shared_ptr<Stream>& stream : streams_of(context)) {
    tickets.push_back(stream->queue->last());
  }
  for (const Ticket& ticket : tickets) {
    ticket.wait();
  }
  return static_cast<CUresult>(context.fault->error.load());
}

CUresult find_stream(CUstream handle, std::shared_ptr<Stream>& out) {
  if (handle == nullptr) {
    handle = t_per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  }
  if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    Context* context = current_context();
    if (!context) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    out = handle == CU_STREAM_LEGACY ? context->legacy : per_thread_stream(*context);
    return CUDA_SUCCESS;
  }
  if (!handle->alive.load(std::memory_order_acquire)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  out = handle->stream;
  return CUDA_SUCCESS;
}

std::shared_ptr<Stream> new_stream(Context& context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = &context;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = g_next_id.fetch_add(1);
  stream->queue = std::make_shared<Queue>(context.fault);
  const std::lock_guard lock(context.mutex);
  context.streams.push_back(stream);
  if (context.streams.size() % 64 == 0) {
    std::erase_if(context.streams, [](const auto& weak) { return weak.expired(); });
  }
  return stream;
}

namespace {

void depend_on_unfinished(Queue& queue, std::vector<Ticket>& dependencies) {
  if (!queue.idle()) {
    dependencies.push_back(queue.last());
  }
}

// The legacy stream waits for all blocking streams, and they for it.
void order_legacy(Stream& stream, std::vector<Ticket>& dependencies) {
  if (stream.legacy) {
    for (const std::shared_ptr<Stream>& other : streams_of(*stream.context)) {
      if (!other->legacy && other->blocking()) {
        depend_on_unfinished(*other->queue, dependencies);
      }
    }
  } else if (stream.blocking()) {
    depend_on_unfinished(*stream.context->legacy->queue, dependencies);
  }
}

}  // namespace

Ticket submit_now(Stream& stream, std::shared_ptr<const Work> work,
                  std::vector<Ticket> dependencies, bool exempt) {
  Operation operation;
  operation.work = std::move(work);
  operation.dependencies = std::move(dependencies);
  operation.async_failure = take_async_failure();
  operation.origin = {current_correlation(), static_cast<uint32_t>(stream.context->device),
                      static_cast<uint32_t>(stream.context->id), static_cast<uint32_t>(stream.id)};
  const auto order = [&](std::vector<Ticket>& out) { order_legacy(stream, out); };
  const uint64_t sequence = stream.queue->push(std::move(operation), order, exempt);
  return {stream.queue, sequence};
}

CUresult submit(Stream& stream, std::shared_ptr<const Work> work, Ticket* ticket,
                std::vector<Ticket> dependencies) {
  if (stream.capturing.load(std::memory_order_acquire)) {
    return capture_add(stream, std::move(work));
  }
  if (stream.legacy) {
    if (const CUresult result = forbid_legacy_while_capturing(*stream.context)) {
      return result;
    }
  }
  const Ticket place = submit_now(stream, std::move(work), std::move(dependencies));
  if (ticket) {
    *ticket = place;
  }
  return CUDA_SUCCESS;
}

CUresult submit_and_wait(Stream& stream, std::shared_ptr<const Work> work) {
  if (const CUresult result = forbid_captured(stream)) {
    return result;
  }
  Ticket ticket;
  if (const CUresult result = submit(stream, std::move(work), &ticket)) {
    return result;
  }
  ticket.wait();
  return static_cast<CUresult>(stream.context->fault->error.load());
}

}  // namespace simgpu
