// What PyTorch's caching allocator does with a request (c10/cuda/CUDACachingAllocator.cpp; the same
// from 1.13 to 2.9).
#pragma once

#include <cstdint>

namespace traintrace::caching {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kMostOfSmall = kMiB;           // kSmallSize: larger ones are large
inline constexpr uint64_t kSmallSegment = 2 * kMiB;      // kSmallBuffer
inline constexpr uint64_t kLargeSegment = 20 * kMiB;     // kLargeBuffer
inline constexpr uint64_t kSegmentOfItsOwn = 10 * kMiB;  // kMinLargeAlloc
inline constexpr uint64_t kRoundedTo = 2 * kMiB;         // kRoundLarge

// Small and large requests are served from pools of their own.
constexpr bool is_small(uint64_t request) {
  return request <= kMostOfSmall;
}
// What it asks of the device where no cached piece serves the request.
constexpr uint64_t segment_for(uint64_t request) {
  return is_small(request)            ? kSmallSegment
         : request < kSegmentOfItsOwn ? kLargeSegment
         : request > ~uint64_t{0} - kRoundedTo
             ? request
             : (request + kRoundedTo - 1) / kRoundedTo * kRoundedTo;
}
// Expandable segments grow by whole pieces of one of two sizes, of which as many are taken as the
// request needs beyond what is free at the end.
constexpr uint64_t piece_for(uint64_t request) {
  return is_small(request) ? kSmallSegment : kLargeSegment;
}

}  // namespace traintrace::caching
