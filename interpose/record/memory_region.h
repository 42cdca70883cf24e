// The memory that everything is recorded into, and what it is called.
//
// It is a file of tmpfs with a name where /dev/shm is roomy, so that it outlives the process and
// its keeper; else a memfd, which lives as long as one of them.  The /dev/shm of a container is
// often 64 MiB, which NCCL and data loaders need themselves: it is left alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/trace_format.h"
#include "interpose/life/identity.h"
#include "interpose/life/settings.h"

namespace traintrace {

struct MemoryRegion {
  format::FileHeader* header;  // null: there is no memory; `why` says so
  size_t bytes;                // mapped, with all holes
  int descriptor;              // the caller closes it
  uint32_t ring_mb;            // may be less than asked for; then `why_smaller` says why
  const char* why_smaller;
  const char* why;
};

// Lays out and maps the memory, and fills in the header but for the clock; `ready` stays 0.  That
// of a forked child begins smaller.
void create_memory_region(const Settings& settings, const Identity& identity, bool is_child,
                          MemoryRegion& into) noexcept;

// /dev/shm/traintrace-UID, whether it is there or not.
void name_memory_folder(Text& into) noexcept;

}  // namespace traintrace
