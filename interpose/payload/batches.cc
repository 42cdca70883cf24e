#include "interpose/payload/batches.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "interpose/base/own_memory.h"
#include "interpose/life/call_filters.h"

namespace traintrace {

constinit uint32_t g_avoided = 0;

namespace {

constexpr uint64_t kPieceBytes = kSamples * kSampleBytes;

struct Range {
  uint64_t begin;  // 0: free; 1: being written
  uint64_t end;
};
constexpr uint32_t kMostAvoided = 64;
constinit Range g_ranges[kMostAvoided] = {};
// There were more: no memory is known to be harmless any more.
constinit bool g_avoid_all = false;

// Piece by piece, each with the hash of those before it as its seed.
bool hash_whole(int32_t tid, uint64_t address, uint64_t bytes, uint64_t& hash) {
  char piece[kPieceBytes] = {};  // as far as Valgrind knows, the kernel writes elsewhere
  hash = bytes;
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    const uint64_t length = bytes - at < kPieceBytes ? bytes - at : kPieceBytes;
    const iovec from = {reinterpret_cast<void*>(address + at), length};
    if (!copy_own_memory(tid, &from, 1, piece, length)) {
      return false;
    }
    hash = XXH3_64bits_withSeed(piece, length, hash);
  }
  return true;
}

bool hash_samples(int32_t tid, uint64_t address, uint64_t bytes, uint64_t& hash) {
  iovec from[kSamples];
  char samples[kPieceBytes] = {};
  const uint64_t last = bytes - kSampleBytes;
  for (uint64_t i = 0; i < kSamples; ++i) {
    // In this order, so that it cannot overflow.
    const uint64_t at = last / (kSamples - 1) * i + last % (kSamples - 1) * i / (kSamples - 1);
    from[i] = {reinterpret_cast<void*>(address + at), kSampleBytes};
  }
  if (!copy_own_memory(tid, from, kSamples, samples, sizeof samples)) {
    return false;
  }
  hash = XXH3_64bits_withSeed(samples, sizeof samples, bytes);
  return true;
}

}  // namespace

bool is_avoided(uint64_t address, uint64_t bytes) noexcept {
  if (load(g_avoided) == 0) {
    return load(g_avoid_all);
  }
  for (const Range& range : g_ranges) {
    if (load(range.begin) > 1 && address < load(range.end) && address + bytes > load(range.begin)) {
      return true;
    }
  }
  return load(g_avoid_all);
}

[[gnu::noinline]] void record_batch(ThreadState& thread, uint64_t address, uint64_t bytes,
                                    uint32_t stack, uint64_t ticks) noexcept {
  if (!selected(format::id_of(format::Moment::batchHash)) || is_avoided(address, bytes) ||
      call_filters_were_added()) {
    return;
  }
  uint64_t hash = 0;
  const bool hashed = bytes <= kMostHashedBytes ? hash_whole(thread.tid, address, bytes, hash)
                                                : hash_samples(thread.tid, address, bytes, hash);
  if (hashed) {
    const uint64_t fields[] = {bytes, hash};
    write_moment(thread, format::Moment::batchHash, ticks, thread.device, stack, fields, 2);
  }
}

void avoid_memory(uint64_t address, uint64_t bytes) noexcept {
  for (Range& range : g_ranges) {
    if (load(range.begin) == 0 && exchange_if(range.begin, uint64_t{0}, uint64_t{1})) {
      publish(range.end, address + bytes);
      publish(range.begin, address);
      __atomic_fetch_add(&g_avoided, 1, __ATOMIC_RELEASE);
      return;
    }
  }
  publish(g_avoid_all, true);
}

void memory_avoided_freed(uint64_t address) noexcept {
  for (Range& range : g_ranges) {
    if (load(range.begin) == address && exchange_if(range.begin, address, uint64_t{1})) {
      __atomic_fetch_sub(&g_avoided, 1, __ATOMIC_RELAXED);
      publish(range.begin, uint64_t{0});
      return;
    }
  }
}

}  // namespace traintrace
