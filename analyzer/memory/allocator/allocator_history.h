// How PyTorch's caching allocator came by its memory on one device, and what it did with it.
#pragma once

#include <array>
#include <vector>

#include "analyzer/memory/allocator/allocator_events.h"
#include "analyzer/memory/allocator/allocator_replay.h"

namespace traintrace {

// Why a request was not served from memory that the allocator held.
enum class MissReason : uint8_t {
  kNeeded,   // less than that was free
  kPieces,   // enough was free, in pieces beside blocks in use
  kSizes,    // enough was free, in whole segments each of which was too small
  kPending,  // a piece was large enough, and waited for another stream
  kOther,    // a piece was large enough: of another stream, or not to be split
};
inline constexpr size_t kMissReasons = 5;

struct CacheMiss {
  TimeNs time = 0;
  uint32_t stack = 0;
  MissReason reason = MissReason::kNeeded;
  uint64_t request = 0;
  uint64_t mapped = 0;   // what it took from the device
  uint64_t free = 0;     // of the same pool, and to be had
  uint64_t largest = 0;  // piece of that
  uint64_t whole = 0;    // of `free`, in segments with nothing else
  uint64_t pending = 0;  // free, but for events of other streams
  uint64_t largest_if_done = 0;
};

// Memory was refused, cached segments were given back, and then it was had.
struct AllocationRetry {
  TimeNs time = 0, took = 0;
  uint32_t stack = 0;
  uint64_t request = 0, given_back = 0;
};

// Segments given back although nothing had been refused.
struct CacheFlush {
  TimeNs time = 0;
  uint32_t stack = 0;
  uint64_t bytes = 0;
};

// Between the sum of what was seen and what the allocator said, after the same report.
struct BookDisagreement {
  uint64_t reports = 0;  // that differ
  TimeNs first = 0;
  uint64_t seen = 0, said = 0;  // at the first
};

struct AllocatorHistory {
  int device = -1;
  bool placed = true;  // segments and blocks fit each other throughout
  uint64_t reports = 0;
  uint64_t peak_allocated = 0, peak_reserved = 0;
  TimeNs peak_time = 0;           // of peak_allocated
  std::vector<CacheMiss> misses;  // but those that were needed; the first few thousand
  std::array<uint64_t, kMissReasons> mapped{};  // bytes, by reason
  std::vector<AllocationRetry> retries;
  std::vector<CacheFlush> flushes;
  uint64_t peak_pending = 0;
  TimeNs peak_pending_time = 0;
  uint32_t pending_stream = 0;  // then, of the block that was freed first: index in streams + 1
  uint32_t pending_stack = 0;   // that allocated it
  FreeSpace worst;              // at the miss of kPieces with most free bytes
  std::vector<std::pair<uint32_t, uint64_t>> pins;  // stacks of what lay beside that, bytes
  BookDisagreement allocated, reserved;
};

// By device.  What was live before the records is known from the tables, and from what was freed.
std::vector<AllocatorHistory> allocator_histories(const ProcessTrace& trace);

}  // namespace traintrace
