// What findings about memory have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/detectors/finding.h"
#include "analyzer/memory/process_memory.h"
#include "analyzer/model/run.h"

namespace traintrace {

// Something of one stack on one rank.
struct MemorySite {
  Rank rank;
  size_t process = 0;  // in Run::processes
  uint32_t stack = 0;
  uint32_t after = 0;  // where `stack` has no line of the job's: that of the job before it
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string text;  // "16 x 1048576 bytes of device memory, cudaMalloc"; its place is added
};

// The device of its communicators; none: they are of several, or there are none.
std::optional<int> own_device(const ProcessTrace& trace);
// Ranks of other processes whose own that device is, as it is numbered in this one.
Ranks owners_of_device(const Run& run, size_t process, int device);
// Numbers of devices mean the same where the same ones are visible: the host, and which.
std::string device_numbering(const ProcessTrace& trace);
// " on GPU 0, which is not its own (GPU 1) but that of rank 0"; empty: it is its own, or which is
// is not known.
std::string other_device_text(const Run& run, size_t process, int device);

// The rank that holds what is on that device of the process.
Rank rank_on(const Run& run, size_t process, int device);

MemorySite site_of(const Run& run, size_t process, const BlockGroup& group);

// One finding about all sites, those with the most bytes first: severity as catalogued, places,
// evidence, `bytes` and `block_count` of the rank that has the most.  Title and advice are left.
Finding memory_finding(const Run& run, std::string_view code, std::vector<MemorySite> sites);

uint64_t bytes_of(const std::vector<MemorySite>& sites, Rank rank);
// "leak.py:12 in step"; "an unknown place".
std::string place_of_site(const Run& run, const MemorySite& site);
std::string at_or_after(const MemorySite& site);  // that place
int64_t signed_bytes(uint64_t bytes);

// PYTORCH_CUDA_ALLOC_CONF has it.
bool segments_expand(const ProcessTrace& trace);
// Against pieces that are too small.
std::string segments_advice(const ProcessTrace& trace);

// Nothing was lost that could have been a free.
bool memory_is_whole(const ProcessTrace& trace);

}  // namespace traintrace
