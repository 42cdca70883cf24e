// Events that several processes record and wait for.
//
// Each is a slot in a file in memory: recordings are numbered when they are made, and the slot
// holds the number of the latest one made and of the latest one reached.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "cuda/ipc.h"
#include "cuda/memory.h"
#include "cuda/shared_event.h"

namespace simgpu {
namespace {

struct EventSlot {
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> reached;
  std::atomic<uint32_t> changes;  // what waiters sleep on
  uint32_t unused[11];
};
static_assert(sizeof(EventSlot) == 64);

constexpr size_t kSlotsPerFile = 1024;
constexpr size_t kFileBytes = kSlotsPerFile * sizeof(EventSlot);

struct EventPlace {
  EventSlot* slot = nullptr;
  int file = -1;
  size_t offset = 0;
};

struct EventPlaces {
  std::mutex mutex;
  std::vector<EventPlace> free;
};
EventPlaces& places() {
  static EventPlaces& all = *new EventPlaces;
  return all;
}

EventSlot* map_file(int file) {
  void* memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<EventSlot*>(memory);
}

bool take_place(EventPlace& place) {
  EventPlaces& all = places();
  const std::lock_guard lock(all.mutex);
  if (all.free.empty()) {
    const int file = create_memory_file("simgpu-events", kFileBytes);
    EventSlot* slots = file < 0 ? nullptr : map_file(file);
    if (!slots) {
      return false;
    }
    for (size_t i = kSlotsPerFile; i-- > 0;) {
      all.free.push_back({slots + i, file, i * sizeof(EventSlot)});
    }
  }
  place = all.free.back();
  all.free.pop_back();
  return true;
}

void sleep_on(std::atomic<uint32_t>& word, uint32_t seen) {
  const timespec at_most = {0, 20'000'000};  // also to look if the context was torn down
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &at_most, nullptr, 0);
}

void wait_reached(EventSlot& slot, uint64_t number, const std::atomic<int>* cancelled) {
  while (true) {
    const uint32_t changes = slot.changes.load();
    if (slot.reached.load() >= number || (cancelled && cancelled->load())) {
      return;
    }
    sleep_on(slot.changes, changes);
  }
}

void reach(EventSlot& slot, uint64_t number) {
  uint64_t before = slot.reached.load();
  while (before < number && !slot.reached.compare_exchange_weak(before, number)) {
  }
  slot.changes.fetch_add(1);
  syscall(SYS_futex, &slot.changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// One per process and event; recordings in flight share it.
struct SharedEvent {
  EventPlace place;
  EventSlot* mapping = nullptr;  // imported: the other process's slots, unmapped at the end

  ~SharedEvent() {
    if (mapping) {
      munmap(mapping, kFileBytes);
      return;
    }
    const std::lock_guard lock(places().mutex);
    places().free.push_back(place);
  }
};

namespace {

class SharedRecordWork : public Work {
 public:
  explicit SharedRecordWork(std::shared_ptr<SharedEvent> event)
      : event_(std::move(event)), number_(event_->place.slot->recorded.fetch_add(1) + 1) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  CUresult run(Run&) const override {
    reach(*event_->place.slot, number_);
    return CUDA_SUCCESS;
  }

 private:
  const std::shared_ptr<SharedEvent> event_;
  const uint64_t number_;
};

class SharedWaitWork : public Work {
 public:
  explicit SharedWaitWork(std::shared_ptr<SharedEvent> event)
      : event_(std::move(event)), number_(event_->place.slot->recorded.load()) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  CUresult run(Run& run) const override {
    wait_reached(*event_->place.slot, number_, &run.fault.cancelled);
    run.ends_now();
    return CUDA_SUCCESS;
  }

 private:
  const std::shared_ptr<SharedEvent> event_;
  const uint64_t number_;
};

}  // namespace

CUresult make_shared_event(Event& event) {
  EventPlace place;
  if (!take_place(place)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  event.shared = std::make_shared<SharedEvent>();
  event.shared->place = place;
  return CUDA_SUCCESS;
}

std::shared_ptr<const Work> shared_record_work(Event& event) {
  return std::make_shared<SharedRecordWork>(event.shared);
}

std::shared_ptr<const Work> shared_wait_work(Event& event) {
  return std::make_shared<SharedWaitWork>(event.shared);
}

CUresult shared_query(Event& event) {
  const EventSlot& slot = *event.shared->place.slot;
  const uint64_t recorded = slot.recorded.load();
  return slot.reached.load() >= recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult shared_synchronize(Event& event) {
  EventSlot& slot = *event.shared->place.slot;
  wait_reached(slot, slot.recorded.load(), nullptr);
  return CUDA_SUCCESS;
}

}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event_handle) {
  SIMGPU_DRIVER_ENTER();
  std::shared_ptr<Event> event;
  SIMGPU_TRY(find_event(event_handle, event));
  if (!handle) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!event->shared || event->shared->mapping) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const EventPlace& place = event->shared->place;
  write_ipc_name({kIpcEvent, event->context->device, RemoteFile::own(place.file), place.offset,
                  sizeof(EventSlot), 0},
                 *handle);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  SIMGPU_CONTEXT_ENTER();
  IpcName name;
  if (!out) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!read_ipc_name(handle, kIpcEvent, name) || name.offset > kFileBytes - sizeof(EventSlot)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const int file = name.file.open();
  if (file < 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  EventSlot* slots = map_file(file);
  close(file);
  if (!slots) {
    return CUDA_ERROR_MAP_FAILED;
  }
  auto event = std::make_shared<Event>();
  event->context = current_context();
  event->flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  event->shared = std::make_shared<SharedEvent>();
  event->shared->mapping = slots;
  event->shared->place = {slots + name.offset / sizeof(EventSlot), -1, name.offset};
  *out = new_event_handle(std::move(event));
  return CUDA_SUCCESS;
}
