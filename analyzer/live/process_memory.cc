#include "analyzer/live/process_memory.h"

#include <sys/uio.h>

namespace traintrace {

bool OtherMemory::read(uint64_t address, void* into, size_t bytes) const {
  const iovec here = {into, bytes};
  const iovec there = {reinterpret_cast<void*>(address), bytes};
  return process_vm_readv(pid_, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace traintrace
