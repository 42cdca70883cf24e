// How much of each device the processes of this machine use together.
//
// CUDA shows a process what its neighbours use, and a neighbour can run it out of memory.  The
// processes share a table, one for each user and each combination of the settings that must agree
// (memory per device, device count, and SIMGPU_NODE, which tests set to be alone).  A process owns
// one slot and changes it with atomics only.  Slots of dead processes are reclaimed by whoever
// asks.
//
// The table is a memfd, and its members find it through abstract socket names in /proc/net/unix:
// both vanish with the last process that has them, so that not even SIGKILL leaves anything behind.
// (A file in /dev/shm did.)  Processes in different network namespaces are different machines.
#pragma once
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/state.h"

namespace simgpu {

class NodeAccount {
 public:
  // The table of this process, joined at the first call.
  static NodeAccount& get();

  // Adds `bytes` to this process's use of `device`, unless all processes together would exceed
  // `capacity`.
  bool charge(int device, size_t bytes, size_t capacity);
  void refund(int device, size_t bytes);
  // What all living processes use.
  size_t used_bytes(int device);
  // Of each living process that uses some of it; at most `most`.  Returns how many there are.
  unsigned users(int device, unsigned most, pid_t* processes, size_t* bytes);

 private:
  static constexpr int kSlots = 256;
  struct Table {
    std::atomic<uint64_t> owners[kSlots];             // 0: free
    std::atomic<uint64_t> used[kMaxDevices][kSlots];  // bytes
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  NodeAccount();
  bool join();
  bool map_table(const std::string& prefix);
  bool claim_slot();
  size_t sum(int device) const;
  void reclaim_dead(Table& table);
  static void empty_slot(Table& table, int slot);
  static Table* private_table();
  void leave();  // at exit

  int file_ = -1;
  std::atomic<Table*> table_{nullptr};
  int slot_ = -1;
  pid_t pid_;
  uint64_t owner_;
};

}  // namespace simgpu
