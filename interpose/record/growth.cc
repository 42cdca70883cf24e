#include "interpose/record/growth.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "interpose/base/files.h"
#include "interpose/base/futex.h"
#include "interpose/base/undisturbed.h"
#include "interpose/keeper/storage.h"
#include "interpose/life/call_filters.h"
#include "interpose/record/clock.h"
#include "interpose/record/map_memory.h"
#include "interpose/tables/allocations.h"
#include "interpose/tables/tensors.h"

namespace traintrace {

constinit uint32_t g_growth_asked = 0;
constinit uint32_t g_own_thread_wake = 0;

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLargestStep = uint64_t{32} << 20;
// The own thread has time: what it cannot get is taken to be refused.
constexpr uint64_t kOwnPatienceNs = 2'000'000'000;
constexpr uint64_t kMostAhead = uint64_t{4} << 20;
// What a step may take of the memory that is left, as for the first one (memory_region.cc).
constexpr uint64_t kMemoryFactor = 4;

struct Growth {
  format::FileHeader* file;
  int descriptor;  // -1: the way to it is known
  dev_t device;    // of the memory, to know it again
  ino_t inode;
  uint32_t busy;      // somebody makes a section larger
  uint32_t answered;  // somebody answers what was asked, which takes `busy` too
  uint32_t refused;   // bits of Growing
};
constinit Growth g_growth = {nullptr, -1, 0, 0, 0, 0, 0};

bool is_memory(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && status.st_dev == g_growth.device &&
         status.st_ino == g_growth.inode;
}

// The process keeps no descriptor: a program that closes what it does not know would leave us with
// a number that soon means a file of its own.
int open_memory() {
  const format::FileHeader& file = *g_growth.file;
  ShortText path;
  if (file.memory_path[0]) {
    path << file.memory_path;
  } else {
    path << "/proc/" << int64_t{file.keeper_pid} << "/fd/" << int64_t{file.keeper_descriptor};
  }
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (opened >= 0 && !is_memory(opened)) {
    close(opened);
    return -1;
  }
  return opened;
}

bool allocate_by_descriptor(uint64_t offset, uint64_t bytes) {
  const bool kept = g_growth.descriptor >= 0;
  const int descriptor = kept ? g_growth.descriptor : open_memory();
  if (descriptor < 0) {
    return false;
  }
  int result = 0;
  int interruptions = 0;
  do {
    result = fallocate(descriptor, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR && ++interruptions < 100);
  if (!kept) {
    close(descriptor);
  }
  return result == 0;
}

// Newer kernels also map the pages at once, so that the job's threads do not fault on them.
bool allocate(uint64_t offset, uint64_t bytes) {
  char* const memory = reinterpret_cast<char*>(g_growth.file) + offset;
  if (populate(memory, bytes)) {
    return true;
  }
  return errno == EINVAL && allocate_by_descriptor(offset, bytes);
}

bool there_is_memory(uint64_t bytes) {
  constexpr uint64_t kNotWorthAsking = uint64_t{256} << 10;
  return bytes <= kNotWorthAsking || memory_headroom() / kMemoryFactor >= bytes;
}

bool grow_section(int index, uint64_t wanted) {
  const format::Section& section = g_growth.file->sections[index];
  const uint64_t now = g_growth.file->ready_bytes[index];
  if (wanted <= now) {
    return true;
  }
  const uint64_t begin = (section.offset + now) / kPage * kPage;
  const uint64_t end = (section.offset + wanted + kPage - 1) / kPage * kPage;
  if (call_filters_were_added() || !there_is_memory(end - begin) || !allocate(begin, end - begin)) {
    return false;
  }
  __atomic_store_n(&g_growth.file->ready_bytes[index], wanted, __ATOMIC_RELEASE);
  return true;
}

bool grow_ring() noexcept {
  const format::FileHeader* const file = g_growth.file;
  const uint64_t now = ready_bytes(file, format::kEvents);
  const uint64_t whole = section_of(file, format::kEvents).bytes;
  return now == whole ||
         grow_to(format::kEvents, std::min(whole, now + std::min(now, kLargestStep)),
                 kOwnPatienceNs);
}

uint32_t load_asked() {
  return __atomic_load_n(&g_growth_asked, __ATOMIC_ACQUIRE) &
         ~__atomic_load_n(&g_growth.refused, __ATOMIC_RELAXED);
}

bool answer_alone(uint64_t patience_ns) {
  const uint64_t give_up_ns = nanoseconds(CLOCK_MONOTONIC) + patience_ns;
  while (__atomic_exchange_n(&g_growth.answered, 1, __ATOMIC_ACQUIRE) != 0) {
    if (nanoseconds(CLOCK_MONOTONIC) > give_up_ns) {
      return false;
    }
    sched_yield();
  }
  return true;
}

void answer(uint32_t asked) {
  struct {
    Growing what;
    bool (*grow)() noexcept;
  } constexpr kAll[] = {{kGrowRing, grow_ring},
                        {kGrowAllocations, allocations_grow},
                        {kGrowTensorBlocks, tensors_grow}};
  uint32_t done = 0;
  for (const auto& each : kAll) {
    done |= (asked & each.what) != 0 && each.grow() ? each.what : 0U;
  }
  __atomic_fetch_or(&g_growth.refused, asked & ~done, __ATOMIC_RELAXED);
  __atomic_fetch_and(&g_growth_asked, ~done, __ATOMIC_RELEASE);
}

}  // namespace

bool grow_to(format::SectionKind kind, uint64_t bytes, uint64_t patience_ns) noexcept {
  format::FileHeader* const file = g_growth.file;
  if (file == nullptr) {
    return false;
  }
  const int index = index_of(file, kind);
  if (bytes <= ready_bytes(file, kind)) {
    return true;
  }
  if (bytes > file->sections[index].bytes) {
    return false;
  }
  const Undisturbed undisturbed;  // or nobody could grow any more
  const uint64_t give_up_ns = nanoseconds(CLOCK_MONOTONIC) + patience_ns;
  while (__atomic_exchange_n(&g_growth.busy, 1, __ATOMIC_ACQUIRE) != 0) {
    if (bytes <= ready_bytes(file, kind) || nanoseconds(CLOCK_MONOTONIC) > give_up_ns) {
      return bytes <= ready_bytes(file, kind);
    }
    sched_yield();
  }
  const int saved_errno = errno;
  const uint64_t more = std::min(bytes / 2, kMostAhead);
  const uint64_t roomy = std::min(bytes + more, file->sections[index].bytes);
  const bool grown = grow_section(index, roomy) || grow_section(index, bytes);
  errno = saved_errno;
  __atomic_store_n(&g_growth.busy, 0, __ATOMIC_RELEASE);
  return grown;
}

void wake_own_thread() noexcept {
  __atomic_fetch_add(&g_own_thread_wake, 1U, __ATOMIC_RELAXED);
  futex_wake(&g_own_thread_wake);
}

bool growth_is_pending() noexcept {
  return (__atomic_load_n(&g_growth_asked, __ATOMIC_RELAXED) & ~g_growth.refused) != 0;
}

bool growth_is_refused(Growing what) noexcept {
  return (__atomic_load_n(&g_growth.refused, __ATOMIC_RELAXED) & what) != 0;
}

void grow_as_asked() noexcept {
  if (!growth_is_pending() || !answer_alone(kOwnPatienceNs)) {
    return;
  }
  answer(load_asked());
  __atomic_store_n(&g_growth.answered, 0, __ATOMIC_RELEASE);
}

bool help_to_grow(Growing what) noexcept {
  if (growth_is_refused(what)) {
    return false;
  }
  const int saved_errno = errno;
  const Undisturbed undisturbed;  // or nobody could grow any more
  const bool alone = answer_alone(kGrowthPatienceNs);
  if (alone) {
    answer(load_asked() & what);  // nothing, where it was answered meanwhile
    __atomic_store_n(&g_growth.answered, 0, __ATOMIC_RELEASE);
  }
  errno = saved_errno;
  return alone && !growth_is_refused(what);
}

void forget_refused_growth() noexcept {
  __atomic_store_n(&g_growth.refused, 0U, __ATOMIC_RELAXED);
}

void growth_start(format::FileHeader* file, int descriptor) noexcept {
  struct stat status = {};
  fstat(descriptor, &status);
  g_growth = {file, descriptor, status.st_dev, status.st_ino, 0, 0, 0};
  __atomic_store_n(&g_growth_asked, 0U, __ATOMIC_RELAXED);
}

// A forked child may have closed what it inherited, and the number be that of a file of its own.
void growth_keeps_no_descriptor() noexcept {
  const int descriptor = g_growth.descriptor;
  g_growth.descriptor = -1;
  if (descriptor >= 0 && is_memory(descriptor)) {
    close(descriptor);
  }
}

void growth_drop() noexcept {
  growth_keeps_no_descriptor();
  g_growth = {nullptr, -1, 0, 0, 0, 0, 0};
}

}  // namespace traintrace
