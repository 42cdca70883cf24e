// For the files that define the exported functions.
#pragma once
#include <nccl.h>

#include "common/entry.h"

// As in the real library, ncclX is weak and pncclX, which a tool that replaces ncclX calls, is
// strong. Stands before the definition of ncclX.
#define SIMGPU_NCCL_EXPORT(name)                        \
  extern "C" decltype(name) name __attribute__((weak)); \
  extern "C" decltype(name) p##name __attribute__((alias(#name)))
