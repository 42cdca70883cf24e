// What tables and events of a trace say about memory, in one form; not yet compared with each
// other.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "analyzer/memory/memory_life.h"

namespace traintrace {

// Within one, what is live does not overlap.
enum class AddressSpace : uint8_t { kDevice, kHost, kRegistered, kHandle, kArray, kBlock };

struct MemoryStep {
  TimeNs time = 0;
  uint32_t stack = 0;
  bool taken = false;
  AddressSpace space = AddressSpace::kDevice;
  uint64_t range = 1;  // of a free: what begins within so many bytes
  LiveBlock block;     // of a free: `bytes` is 0 if it was not told
};

class MemorySources {
 public:
  explicit MemorySources(const ProcessTrace& trace);

  std::vector<MemoryStep> live();   // what the tables have
  std::vector<MemoryStep> steps();  // by time
  bool tables_were_full() const;

 private:
  std::optional<MemoryStep> from(uint32_t call, uint32_t stack, uint64_t address, uint64_t bytes,
                                 uint8_t device);
  void add_call(const CallRecord& event, const CallSchema& schema, std::vector<MemoryStep>& steps);
  void add_report(const CallRecord& event, std::vector<MemoryStep>& steps) const;
  Owner owner(uint32_t stack);
  // -1: PyTorch's allocator has no block in it.
  int device_of_blocks_in(const LiveBlock& block) const;

  const ProcessTrace& trace_;
  std::map<uint32_t, Owner> owners_;  // by stack
  // What PyTorch's allocator ever reported: address and device.
  std::vector<std::pair<uint64_t, int>> reported_;
  int only_device_ = -1;  // that the process is known to use; -1: none, or several
};

}  // namespace traintrace
