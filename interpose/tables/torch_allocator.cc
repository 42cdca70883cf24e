// c10 calls these with the allocator's lock held, whether or not a profiler runs.  So nothing here
// may wait for another thread, and the loader is not asked by dlsym: its lock is held while
// libraries initialise themselves, and they may allocate.
#include "interpose/tables/torch_allocator.h"

#include <dlfcn.h>
#include <link.h>

#include "interpose/calls/elf_next.h"
#include "interpose/calls/open_call.h"
#include "interpose/calls/symbols.h"
#include "interpose/record/clock.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/objects.h"
#include "interpose/tables/failures.h"
#include "interpose/tables/state.h"
#include "interpose/tables/tables.h"
#include "interpose/tables/tensors.h"

namespace traintrace {
namespace {

// c10::Device as it is passed, in the low bytes of a register.  Up to 1.7 both were 16 bits wide.
struct Device {
  int8_t type;
  int8_t index;
};
constexpr int8_t kCuda = 1;

constexpr size_t kVariants = 7;
struct Next {
  void* function;
  uint64_t missed_at;  // loads_so_far() when it was sought in vain
  bool pinned;
};
Next g_next[kVariants];

constexpr size_t place_of(Export variant) {
  return static_cast<size_t>(variant) -
         static_cast<size_t>(Export::_ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl);
}

void* find_next(Next& next, const char* name) {
  if (!loader_can_be_asked()) {
    return next_definition(name);
  }
  const uint64_t loads = loads_so_far();
  if (load(next.missed_at) == loads) {
    return nullptr;
  }
  void* const found = definition_elsewhere(name);
  publish(next.missed_at, found ? 0 : loads);
  return found;
}

// Null: no library has it, which only happens to programs that are not PyTorch.
template <class... Arguments>
auto next_of(Export variant, void (*)(Arguments...)) {
  Next& known = g_next[place_of(variant)];
  void* next = load(known.function);
  if (next == nullptr) {
    next = find_next(known, name_of(symbol_of(variant)));
    publish(known.function, next);
  }
  return reinterpret_cast<void (*)(Arguments...)>(next);
}

// Null: this report is not recorded.
[[gnu::always_inline]] inline ThreadState* begin(Device device, InsideMark& mark) {
  ThreadState* const thread = device.type == kCuda ? thread_to_record(false) : nullptr;
  if (thread == nullptr) {
    return nullptr;
  }
  if (!enter_tracer_if_free(*thread, mark)) {
    refuse_in_signal(*thread);
    return nullptr;
  }
  return thread;
}

uint8_t number_of(Device device) {
  return device.index < 0 ? format::kNoDevice : static_cast<uint8_t>(device.index);
}

void write_block(ThreadState& thread, const TensorReport& report) {
  const uint64_t fields[] = {report.address, static_cast<uint64_t>(report.change), report.allocated,
                             report.reserved};
  write_moment(thread, format::Moment::reportMemoryUsageToProfiler, report.ticks, report.device,
               report.stack, fields, report.has_totals ? 4 : 2);
}

[[gnu::always_inline]] inline void note_block(Device device, TensorReport report) {
  InsideMark mark;
  if (ThreadState* const thread = begin(device, mark)) {
    report.device = report.has_totals ? number_of(device) : thread->device;
    // Of a free no stack: half of all reports, and a destructor's place explains nothing.
    report.stack = report.change > 0 ? current_stack(*thread, walk_from_here()) : 0;
    report.ticks = clock_ticks();
    tensor_reported(report);
    write_block(*thread, report);
    leave_tracer(*thread);
  }
}

[[gnu::always_inline]] inline void note_failure(Device device, uint64_t bytes, uint64_t allocated,
                                                uint64_t reserved) {
  InsideMark mark;
  if (ThreadState* const thread = begin(device, mark)) {
    constexpr auto kMoment = format::Moment::reportOutOfMemoryToProfiler;
    const uint32_t stack = current_stack(*thread, walk_from_here());
    const uint64_t ticks = clock_ticks();
    const uint64_t fields[] = {bytes, allocated, reserved};
    write_moment(*thread, kMoment, ticks, number_of(device), stack, fields, 3);
    memory_ran_out(
        *thread, FailureSort::kReport,
        {format::id_of(kMoment), 0, number_of(device), bytes, allocated, reserved, stack, ticks});
    leave_tracer(*thread);
  }
}

uint64_t number(const void* address) {
  return reinterpret_cast<uint64_t>(address);
}

}  // namespace

// Not by whoever reports: dlopen takes locks.
void torch_allocator_tick() noexcept {
  for (Next& next : g_next) {
    void* const function = load(next.function);
    const link_map* const map = function && !next.pinned ? map_of(function) : nullptr;
    void* const handle = map ? handle_if_loaded(map->l_name, RTLD_NODELETE) : nullptr;
    if (handle) {
      next.pinned = true;
      dlclose(handle);
    }
  }
}

extern "C" {
// Called what exports.def says.  NOLINTBEGIN(*-identifier-naming,*-reserved-identifier)

#define GO_ON(variant, ...)                                             \
  if (const auto next = next_of(Export::variant, &tt_hook_##variant)) { \
    next(__VA_ARGS__);                                                  \
  }

// 1.6
void tt_hook__ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl(Device device, int64_t change) {
  note_block(device, {0, change, false, 0, 0, 0, 0, 0});
  GO_ON(_ZN3c1027reportMemoryUsageToProfilerENS_6DeviceEl, device, change)
}

// 1.7 to 1.9: the pointer is the allocator's own description of the block
void tt_hook__ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE(void* block, int64_t change,
                                                                 Device device) {
  note_block(device, {0, change, false, 0, 0, 0, 0, 0});
  GO_ON(_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE, block, change, device)
}

// 1.10 to 1.13
void tt_hook__ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(void* address, int64_t change,
                                                                   int64_t allocated,
                                                                   int64_t reserved,
                                                                   Device device) {
  note_block(device, {number(address), change, true, static_cast<uint64_t>(allocated),
                      static_cast<uint64_t>(reserved), 0, 0, 0});
  GO_ON(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE, address, change, allocated, reserved,
        device)
}

// 2.0 and later
void tt_hook__ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void* address, int64_t change,
                                                                   uint64_t allocated,
                                                                   uint64_t reserved,
                                                                   Device device) {
  note_block(device, {number(address), change, true, allocated, reserved, 0, 0, 0});
  GO_ON(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, address, change, allocated, reserved,
        device)
}

void tt_hook__ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(int64_t bytes, int64_t allocated,
                                                                 int64_t reserved, Device device) {
  note_failure(device, static_cast<uint64_t>(bytes), static_cast<uint64_t>(allocated),
               static_cast<uint64_t>(reserved));
  GO_ON(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE, bytes, allocated, reserved, device)
}

void tt_hook__ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, uint64_t allocated,
                                                                 uint64_t reserved, Device device) {
  note_failure(device, static_cast<uint64_t>(bytes), allocated, reserved);
  GO_ON(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE, bytes, allocated, reserved, device)
}

void tt_hook__ZN3c1027reportOutOfMemoryToProfilerEmmmNS_6DeviceE(uint64_t bytes, uint64_t allocated,
                                                                 uint64_t reserved, Device device) {
  note_failure(device, bytes, allocated, reserved);
  GO_ON(_ZN3c1027reportOutOfMemoryToProfilerEmmmNS_6DeviceE, bytes, allocated, reserved, device)
}

// NOLINTEND(*-identifier-naming,*-reserved-identifier)
}  // extern "C"

}  // namespace traintrace
