#include "interpose/gpu/gpu_records.h"

#include "interpose/gpu/cupti_api.h"
#include "interpose/record/clock.h"
#include "interpose/record/recorder.h"
#include "interpose/tables/kernels.h"

namespace traintrace {
namespace {

using format::Moment;

// By its text: the place of a name may go to another one, when its module is gone.  The highest bit
// keeps it apart from addresses, by which launches call kernels.
uint64_t id_of_name(const char* name) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (; *name != '\0'; ++name) {
    hash = (hash ^ static_cast<uint8_t>(*name)) * 0x100000001b3U;
  }
  return hash | uint64_t{1} << 63;
}

uint64_t duration(uint64_t start, uint64_t end) {
  return end > start ? end - start : 0;
}

uint64_t packed(const int32_t (&size)[3]) {
  return static_cast<uint32_t>(size[0]) | uint64_t{static_cast<uint16_t>(size[1])} << 32 |
         uint64_t{static_cast<uint16_t>(size[2])} << 48;
}

uint8_t device_number(uint32_t device) {
  return device < format::kNoDevice ? static_cast<uint8_t>(device) : format::kNoDevice;
}

template <int kCount>
void write(ThreadState& thread, Moment moment, uint8_t device, const uint64_t (&fields)[kCount]) {
  write_moment(thread, moment, clock_ticks(), device, 0, fields, kCount);
}

// One whose times CUPTI could not tell has none.
void write_kernel(ThreadState& thread, const cupti::Kernel& kernel) {
  uint64_t function = 0;
  if (kernel.name != nullptr) {
    function = id_of_name(kernel.name);
    kernel_seen(thread, function, kernel.name);
  }
  write(thread, Moment::gpuKernel, device_number(kernel.device),
        {kernel.start, duration(kernel.start, kernel.end), kernel.correlation, kernel.stream,
         function, packed(kernel.grid), packed(kernel.block)});
}

template <class Copy>
void write_copy(ThreadState& thread, const Copy& copy) {
  const uint64_t path =
      copy.copy_kind | uint64_t{copy.source} << 8 | uint64_t{copy.destination} << 16;
  write(thread, Moment::gpuCopy, device_number(copy.device),
        {copy.start, duration(copy.start, copy.end), copy.correlation, copy.stream, path,
         copy.bytes});
}

void write_set(ThreadState& thread, const cupti::Memset& set) {
  write(thread, Moment::gpuSet, device_number(set.device),
        {set.start, duration(set.start, set.end), set.correlation, set.stream, set.bytes});
}

void write_wait(ThreadState& thread, const cupti::Synchronization& wait) {
  write(thread, Moment::gpuWait, format::kNoDevice,
        {wait.start, duration(wait.start, wait.end), wait.correlation, wait.stream, wait.type});
}

void write_overhead(ThreadState& thread, const cupti::Overhead& overhead) {
  write(thread, Moment::gpuOverhead, format::kNoDevice,
        {overhead.start, duration(overhead.start, overhead.end), overhead.overhead_kind});
}

template <class Record>
const Record& as(const void* record) {
  return *static_cast<const Record*>(record);
}

}  // namespace

void write_gpu_record(ThreadState& thread, const void* record) noexcept {
  switch (as<uint32_t>(record)) {
    case cupti::kKernel:
    case cupti::kConcurrentKernel:
      return write_kernel(thread, as<cupti::Kernel>(record));
    case cupti::kMemcpy:
      return write_copy(thread, as<cupti::Memcpy>(record));
    case cupti::kMemcpyPeer:
      return write_copy(thread, as<cupti::MemcpyPeer>(record));
    case cupti::kMemset:
      return write_set(thread, as<cupti::Memset>(record));
    case cupti::kSynchronization:
      return write_wait(thread, as<cupti::Synchronization>(record));
    case cupti::kOverhead:
      return write_overhead(thread, as<cupti::Overhead>(record));
    default:
      return;
  }
}

}  // namespace traintrace
