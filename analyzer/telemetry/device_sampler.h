// The readings of one GPU, in groups by how often they are taken.
#pragma once

#include <cstdint>

#include "analyzer/telemetry/nvml.h"
#include "analyzer/telemetry/sampler.h"
#include "analyzer/telemetry/telemetry_line.h"

namespace traintrace {

// While it lives, the slot says that this is being asked.
class Asking {
 public:
  Asking(QuerySlot& slot, const char* function, int device);
  ~Asking() { slot_.since_ns.store(0); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  QuerySlot& slot_;
};

struct SampledDevice {
  const Nvml& nvml;
  QuerySlot& slot;
  nvmlDevice_t handle;
  int device;
};

// What a device or its driver does not support is left out.
void read_clocks(const SampledDevice& from, ReadLine& into);  // each interval
void read_states(const SampledDevice& from, ReadLine& into);  // each 5 s
void read_faults(const SampledDevice& from, ReadLine& into);  // each 30 s
void read_nvlink(const SampledDevice& from, ReadLine& into);  // each 60 s, if asked for

}  // namespace traintrace
