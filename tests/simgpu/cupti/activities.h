// Activity records on their way to buffers of the client.
#pragma once
#include <cupti.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace simgpu {

class Activities {
 public:
  void set_callbacks(CUpti_BuffersCallbackRequestFunc requested,
                     CUpti_BuffersCallbackCompleteFunc completed);
  bool has_callbacks();
  void enable(CUpti_ActivityKind kind, bool on);
  bool is_enabled(CUpti_ActivityKind kind) const {
    return enabled_[kind].load(std::memory_order_relaxed);
  }
  // One with its `kind` set.
  template <class Record>
  void add(const Record& record) {
    add(&record, sizeof record);
  }
  // Hands over what there is.  All records here are complete: they come when their work is done.
  void flush();
  size_t take_dropped();

 private:
  struct Buffer {
    uint8_t* data = nullptr;
    size_t bytes = 0;
    size_t valid_bytes = 0;
    size_t most_records = 0;  // 0: as many as fit
    size_t records = 0;
  };

  void add(const void* record, size_t bytes);
  bool has_room(size_t bytes) const;
  void hand_over();
  void work_loop();

  std::atomic<bool> enabled_[CUPTI_ACTIVITY_KIND_COUNT] = {};
  std::mutex mutex_;  // guards what follows
  CUpti_BuffersCallbackRequestFunc requested_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed_ = nullptr;
  Buffer current_;
  std::deque<Buffer> full_;
  size_t dropped_ = 0;
  bool has_worker_ = false;
  std::condition_variable filled_;
};

Activities& activities();

// Bytes of a record; 0: none that is ever written here.
size_t bytes_of(CUpti_ActivityKind kind);

// What CUPTI does for itself meanwhile, as a record.
class Overhead {
 public:
  explicit Overhead(CUpti_ActivityOverheadKind kind);
  Overhead(const Overhead&) = delete;
  Overhead& operator=(const Overhead&) = delete;
  ~Overhead();

 private:
  const CUpti_ActivityOverheadKind kind_;
  const int64_t begin_ns_;
};

// Lets libcuda tell us of its work.  False: it is not simgpu's.
bool trace_driver();

// callbacks.cc
void call_subscriber(const char* function, uint32_t correlation);

}  // namespace simgpu
