// The objects behind the driver's handles, and the rules for finding them.
//
// Handles are pointers to slots that are recycled but never returned to the system, so a stale
// handle is recognised (`alive` is false) instead of being a use after free.
#pragma once
#include <cuda.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "common/entry.h"
#include "cuda/queue.h"

namespace simgpu {
struct Capture;  // capture.h
struct Stream;
struct Event;
struct DeviceMemory;  // memory.h: a device's address space, pools and accounting
}  // namespace simgpu

struct CUctx_st {
  std::atomic<bool> alive{true};
  int device = 0;
  uint64_t id = 0;
  bool primary = false;
  std::atomic<unsigned> flags{0};
  std::shared_ptr<simgpu::Fault> fault = std::make_shared<simgpu::Fault>();
  std::mutex mutex;  // guards what follows
  std::shared_ptr<simgpu::Stream> legacy;
  std::vector<std::weak_ptr<simgpu::Stream>> streams;    // all but the legacy stream
  std::vector<std::shared_ptr<simgpu::Stream>> retired;  // destroyed, but with work still queued
  std::map<int, size_t> limits;
  std::vector<int> peers;  // devices whose memory was made accessible
};
struct CUstream_st {
  std::atomic<bool> alive{false};
  std::shared_ptr<simgpu::Stream> stream;
};
struct CUevent_st {
  std::atomic<bool> alive{false};
  std::shared_ptr<simgpu::Event> event;
};

namespace simgpu {
using Context = CUctx_st;

struct Stream : std::enable_shared_from_this<Stream> {
  Context* context = nullptr;
  unsigned flags = 0;  // CU_STREAM_NON_BLOCKING or 0
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false;
  CUstream handle = nullptr;  // what the application holds; the special values for default streams
  std::shared_ptr<Queue> queue;
  // Set while the stream is being captured; guarded by capture.cc's lock, `capturing` readable
  // without.
  std::atomic<bool> capturing{false};
  std::shared_ptr<Capture> capture;

  std::map<int, CUstreamAttrValue> attributes;  // guarded by the context's mutex

  bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }
  ~Stream() { queue->close(); }
};

// One recording of an event: reached when `ticket` is done; then time_ns is set.
struct Recording {
  Ticket ticket;
  std::atomic<int64_t> time_ns{0};
};

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  std::mutex mutex;
  std::shared_ptr<Recording> last;             // null: never recorded, which counts as complete
  std::weak_ptr<Capture> captured_in;          // recorded inside a capture: usable only there
  std::vector<CUgraphNode> captured_after;     // the nodes that a wait then depends on
  std::shared_ptr<struct SharedEvent> shared;  // ipc.cc: visible to other processes
};

// A pool of handle slots of one type.  Thread-safe; slots live for ever.
template <class Slot>
class Slots {
 public:
  Slot* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      return all_.emplace_back(std::make_unique<Slot>()).get();
    }
    Slot* slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give(Slot* slot) {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>>
      all_;  // what a program never destroys is not lost memory of ours
  std::vector<Slot*> free_;
};

constexpr int kMaxDevices = 16;
constexpr int kDefaultDevices = 8;  // as in the usual training machine

struct Device {
  int ordinal = 0;
  std::mutex mutex;
  Context* primary = nullptr;  // created by the first retain, kept (dead or alive) afterwards
  unsigned primary_references = 0;
  unsigned primary_flags = 0;
};

// --- init and devices
CUresult initialise();  // cuInit
CUresult
check_ready();  // cuInit was called, in this process (a fork child starts over: not initialised)
int device_count();  // SIMGPU_DEVICES
bool valid_device(CUdevice device);
Device& device_at(int ordinal);

// --- contexts
Context* current_context();  // of this thread, or null
void set_current_context(Context* context);
std::vector<Context*>& context_stack();
Context* new_context(int device, unsigned flags, bool primary);
// Cancels what is queued, frees the context's memory, marks it dead.
void tear_down(Context& context);
// CUDA_SUCCESS, or why no call can proceed: no context, destroyed, or its sticky error.
CUresult check_context();
// Blocks until everything issued in the context so far is done; returns the sticky error if there
// is one.
CUresult synchronize(Context& context);
std::vector<std::shared_ptr<Stream>> streams_of(Context& context);  // all, the legacy stream first

// --- streams
// What the handle means in the current context and thread.  0 is the legacy stream, or the thread's
// own inside a *_ptsz/_ptds function; 1 and 2 always are those two.
CUresult find_stream(CUstream handle, std::shared_ptr<Stream>& out);
std::shared_ptr<Stream> new_stream(Context& context, unsigned flags, int priority);
// The application has destroyed the stream: the context keeps it until its queue is empty.
void retire(const std::shared_ptr<Stream>& stream);
// True inside the per-thread-default-stream variants of functions, on this thread.
extern constinit thread_local bool t_per_thread_default;

// --- submitting
// Enqueues (or, while the stream is captured, adds to the graph) and returns at once.  Orders
// legacy and blocking streams as documented.  `ticket` (may be null) receives the place in the
// queue; unset when captured.
CUresult submit(Stream& stream, std::shared_ptr<const Work> work, Ticket* ticket = nullptr,
                std::vector<Ticket> dependencies = {});
// The same, never captured: for the nodes of a launched graph and for internal use.
Ticket submit_now(Stream& stream, std::shared_ptr<const Work> work,
                  std::vector<Ticket> dependencies = {}, bool exempt = false);
// submit, then wait for it; returns the sticky error if the work failed.  Fails on a captured
// stream.
CUresult submit_and_wait(Stream& stream, std::shared_ptr<const Work> work);

// --- events
CUresult find_event(CUevent handle, std::shared_ptr<Event>& out);
// A work that reaches `recording`, for streams and for launched graph nodes.
std::shared_ptr<const Work> record_work(std::shared_ptr<Recording> recording);
// Records now on the stream (never captured).
void record_now(Stream& stream, Event& event);
// A new handle for an event; never null.
CUevent new_event_handle(std::shared_ptr<Event> event);
// What waiting for the event's last recording depends on (empty ticket if there is none).
Ticket event_ticket(Event& event);

}  // namespace simgpu

// First statement of a driver function; the second form also needs a usable current context.
#define SIMGPU_DRIVER_ENTER()                                                            \
  SIMGPU_ENTER(CUresult);                                                                \
  if (const CUresult simgpu_ready = simgpu::check_ready(); simgpu_ready != CUDA_SUCCESS) \
  return simgpu_ready

#define SIMGPU_CONTEXT_ENTER()                                                               \
  SIMGPU_DRIVER_ENTER();                                                                     \
  if (const CUresult simgpu_usable = simgpu::check_context(); simgpu_usable != CUDA_SUCCESS) \
  return simgpu_usable

// Returns from the enclosing function if `call` fails.
#define SIMGPU_TRY(call)                                                    \
  if (const CUresult simgpu_result = (call); simgpu_result != CUDA_SUCCESS) \
  return simgpu_result
