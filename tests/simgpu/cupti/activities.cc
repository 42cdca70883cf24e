#include "cupti/activities.h"

#include <pthread.h>

#include <csignal>
#include <cstring>
#include <thread>

namespace simgpu {

Activities& activities() {
  static Activities& value = *new Activities;  // threads of streams outlive the program's end
  return value;
}

void Activities::set_callbacks(CUpti_BuffersCallbackRequestFunc requested,
                               CUpti_BuffersCallbackCompleteFunc completed) {
  const std::lock_guard lock(mutex_);
  requested_ = requested;
  completed_ = completed;
  if (!has_worker_) {
    has_worker_ = true;
    std::thread([this] { work_loop(); }).detach();
  }
}

bool Activities::has_callbacks() {
  const std::lock_guard lock(mutex_);
  return requested_ != nullptr;
}

void Activities::enable(CUpti_ActivityKind kind, bool on) {
  enabled_[kind].store(on, std::memory_order_relaxed);
}

bool Activities::has_room(size_t bytes) const {
  return current_.valid_bytes + bytes <= current_.bytes &&
         (current_.most_records == 0 || current_.records < current_.most_records);
}

void Activities::add(const void* record, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (requested_ == nullptr) {
    return;
  }
  if (current_.data != nullptr && !has_room(bytes)) {
    full_.push_back(current_);
    current_ = {};
    filled_.notify_one();
  }
  if (current_.data == nullptr) {
    requested_(&current_.data, &current_.bytes, &current_.most_records);
  }
  if (current_.data == nullptr || !has_room(bytes)) {
    ++dropped_;
    return;
  }
  memcpy(current_.data + current_.valid_bytes, record, bytes);
  current_.valid_bytes += bytes;
  ++current_.records;
}

// To whoever is registered now, as the real one does.
void Activities::hand_over() {
  std::unique_lock lock(mutex_);
  while (!full_.empty() && completed_ != nullptr) {
    const Buffer buffer = full_.front();
    full_.pop_front();
    const CUpti_BuffersCallbackCompleteFunc completed = completed_;
    lock.unlock();
    completed(nullptr, 0, buffer.data, buffer.bytes, buffer.valid_bytes);
    lock.lock();
  }
}

void Activities::flush() {
  {
    const std::lock_guard lock(mutex_);
    if (current_.data != nullptr) {
      full_.push_back(current_);
      current_ = {};
    }
  }
  hand_over();
}

size_t Activities::take_dropped() {
  const std::lock_guard lock(mutex_);
  const size_t dropped = dropped_;
  dropped_ = 0;
  return dropped;
}

void Activities::work_loop() {
  pthread_setname_np(pthread_self(), "simgpu-cupti");
  while (true) {
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [this] { return !full_.empty(); });
    }
    hand_over();
  }
}

size_t bytes_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    default:
      return 0;
  }
}

}  // namespace simgpu
