// What loaded libraries import from CUDA and NCCL, and what the loader has bound it to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace {

// A library that needs one of the vendors'.  Addresses are those in this process.
struct Importer {
  uint64_t base;
  uint64_t symbols;
  uint64_t strings;
  struct Table {
    uint64_t address;
    uint64_t bytes;
  } tables[2];
  char path[256];
};

// All of them but the vendors' own libraries; returns how many.
int find_importers(Importer* into, int most) noexcept;

// Whether a function of ours is bound to an address of which `is_theirs` holds.  The library may be
// unloaded meanwhile: its memory is read by way of /proc/self/mem, which then fails.
bool any_bound_past_us(const Importer& importer, bool (*is_theirs)(uint64_t target)) noexcept;

}  // namespace traintrace
