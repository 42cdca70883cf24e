// The caching allocator for programs that play PyTorch.  Settings, as PyTorch's:
// PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.  SIMGPU_C10=1.6, 1.7, 1.10 or 2.0 (default)
// says by which of c10's functions it reports.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

struct C10Stats {
  uint64_t allocated;       // bytes in use, as the program sees it
  uint64_t reserved;        // bytes of segments
  uint64_t active;          // in use, or freed while streams still work on it
  uint64_t inactive_split;  // free parts of segments of which another part is in use
  uint64_t peak_allocated;
  uint64_t peak_reserved;
  uint64_t allocations;
  uint64_t frees;
  uint64_t retries;  // cudaMalloc failed, and cached segments were given back
  uint64_t ooms;
};

// A part of a segment; parts of one follow each other without a gap.
struct C10Block {
  const void* segment;  // its first address
  const void* address;
  uint64_t bytes;
  int state;  // 0: free, 1: in use, 2: freed while streams still work on it
  bool is_expandable;
};

extern "C" {
// Of the current device.  Null: out of memory.
[[gnu::visibility("default")]] void* c10sim_malloc(size_t bytes, cudaStream_t stream);
[[gnu::visibility("default")]] void c10sim_free(void* memory);
// The block is not used again before what the stream has now is done.
[[gnu::visibility("default")]] void c10sim_record_stream(void* memory, cudaStream_t stream);
[[gnu::visibility("default")]] void c10sim_empty_cache();
[[gnu::visibility("default")]] void c10sim_stats(int device, C10Stats* stats);
// All of a device, as PyTorch's snapshots have them: a segment is what is mapped in one piece.
[[gnu::visibility("default")]] void c10sim_snapshot(int device,
                                                    void (*visit)(const C10Block*, void*),
                                                    void* context);
}
