// The tables of the mapped file that are never evicted, and the tracer's own memory beside them.
//
// Every element is taken by one atomic step and its first word is stored last, so that a reader of
// the file never sees half of one, whoever is killed when.  Nothing here waits for another thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/trace_format.h"

namespace traintrace {

// Words that other threads and readers of the file look at meanwhile.
template <class T>
inline T load(const T& word) noexcept {
  T value;  // the forms that end in _n take no enumeration in clang 14
  __atomic_load(&word, &value, __ATOMIC_ACQUIRE);
  return value;
}
template <class T>
inline void publish(T& word, T value) noexcept {
  __atomic_store(&word, &value, __ATOMIC_RELEASE);
}
template <class T>
inline bool exchange_if(T& word, T expected, T value) noexcept {
  return __atomic_compare_exchange_n(&word, &expected, value, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}
template <class T>
inline T fetch_add(T& word, T value) noexcept {
  return __atomic_fetch_add(&word, value, __ATOMIC_ACQ_REL);
}
template <class T>
inline T fetch_or(T& word, T bits) noexcept {
  return __atomic_fetch_or(&word, bits, __ATOMIC_ACQ_REL);
}
template <class T>
inline T fetch_and(T& word, T bits) noexcept {
  return __atomic_fetch_and(&word, bits, __ATOMIC_ACQ_REL);
}
// What follows is not stored before what precedes: between the 0 that takes an element out of use
// and its new content.
inline void store_fence() noexcept {
  __atomic_thread_fence(__ATOMIC_RELEASE);
}
// Puts `value` where a reader may look meanwhile: the first word tells it that there is nothing (or
// `meanwhile`) until all is there, and it looks at that word before and after.
template <class T>
inline void replace(T& into, const T& value, uint64_t meanwhile = 0) noexcept {
  static_assert(sizeof(T) % 8 == 0 && alignof(T) == 8);
  auto* const words = reinterpret_cast<uint64_t*>(&into);
  uint64_t news[sizeof(T) / 8];
  __builtin_memcpy(news, &value, sizeof value);
  publish(words[0], meanwhile);
  store_fence();
  for (size_t i = 1; i < sizeof(T) / 8; ++i) {
    __atomic_store_n(&words[i], news[i], __ATOMIC_RELAXED);
  }
  publish(words[0], news[0]);
}
template <class T>
inline void raise_to(T& word, T value) noexcept {
  for (T old = load(word); old < value && !exchange_if(word, old, value); old = load(word)) {
  }
}

// 1..limit, each once; 0 when all are taken.
inline uint32_t take_number(uint32_t& counter, uint32_t limit) noexcept {
  if (load(counter) >= limit) {
    return 0;
  }
  const uint32_t number = fetch_add(counter, 1U) + 1;
  return number <= limit ? number : 0;
}

struct Tables {
  format::FileHeader* file;  // null: nothing is recorded
  format::Communicator* communicators;
  uint32_t communicator_count;
  format::Operation* operations;
  format::Peer* peers;
  uint32_t peer_count;
  format::Stream* streams;
  uint32_t stream_count;
  format::HostFunction* host_functions;
  uint32_t host_function_count;
  format::MarkWords* marks;  // null, as the next, unless asked for
  format::OperationProgress* progress;
  format::Allocation* allocations;  // these two grow: growth.h
  format::TensorBlock* tensor_blocks;
  format::TensorDevice* tensor_devices;
  uint32_t tensor_device_count;
  format::OutOfMemory* failures;
  uint32_t failure_count;
  format::HeldBlock* held_blocks;
  uint32_t held_block_count;
  char* definition_chunks;
  uint32_t definition_chunk_bytes;
  uint32_t definition_chunk_count;
  format::Thread* threads;
  uint32_t thread_count;
  format::OpenRanges* open_ranges;  // one for each of these; grows
  uint32_t open_ranges_count;
};
extern Tables g_tables;

void find_tables(format::FileHeader* file) noexcept;

// Memory for one trace file's private indices: zeroed, never given back singly; null when used up.
// One mapping, so that a forked child drops everything inherited at once.
void* private_memory(size_t bytes) noexcept;
template <class T>
T* private_array(size_t count) noexcept {
  return static_cast<T*>(private_memory(count * sizeof(T)));
}
// The same for what grows: a mapping of its own, dropped with the rest.
void* private_block_bytes(size_t bytes) noexcept;
template <class T>
T* private_block(size_t count) noexcept {
  return static_cast<T*>(private_block_bytes(count * sizeof(T)));
}
void private_memory_start() noexcept;
void private_memory_drop() noexcept;

// Spreads handles, which are multiples of some power of two, over the upper 32 bits.
inline uint64_t spread(uint64_t key) noexcept {
  return (key ^ (key >> 32)) * 0x9e3779b97f4a7c15ULL;
}
// 0..count-1 without a division.
inline uint32_t place_of(uint64_t key, uint32_t count) noexcept {
  return static_cast<uint32_t>(((spread(key) >> 32) * count) >> 32);
}

}  // namespace traintrace
