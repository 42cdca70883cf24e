// A range of addresses that memory is mapped into as it is needed.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

namespace c10sim {

class ExpandableSegment {
 public:
  ExpandableSegment(int device, size_t granule, size_t total_bytes);
  ~ExpandableSegment();
  ExpandableSegment(const ExpandableSegment&) = delete;
  ExpandableSegment& operator=(const ExpandableSegment&) = delete;

  char* base() const { return reinterpret_cast<char*>(base_); }
  size_t bytes() const { return handles_.size() * granule_; }
  size_t granule() const { return granule_; }
  // Whole granules.  False: out of memory, and nothing was mapped.
  bool map(char* address, size_t bytes);
  void unmap(char* address, size_t bytes);

 private:
  size_t index_of(const char* address) const {
    return static_cast<size_t>(address - base()) / granule_;
  }

  int device_;
  size_t granule_;
  CUdeviceptr base_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;  // 0: not mapped
};

}  // namespace c10sim
