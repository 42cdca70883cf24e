#include "interpose/keeper/left_behind.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/segments.h"
#include "interpose/keeper/copy_out.h"
#include "interpose/keeper/folder_entries.h"
#include "interpose/keeper/keeper.h"
#include "interpose/life/identity.h"
#include "interpose/record/clock.h"
#include "interpose/record/memory_region.h"

namespace traintrace {
namespace {

// Of a process in another PID namespace nothing is known but when it was last alive; a memory
// whose folder may be one of another mount namespace is left to those who see that; and what cannot
// be copied anywhere is kept so long for somebody who looks for it.
constexpr uint64_t kOldSeconds = 3600;
// Younger ones are being set up, or have just lost their process.
constexpr uint64_t kYoungSeconds = 10;

uint64_t age_seconds(int file) {
  struct stat status = {};
  const uint64_t now_s = nanoseconds(CLOCK_REALTIME) / 1'000'000'000;
  const bool known = fstat(file, &status) == 0 && status.st_mtime >= 0;
  const auto changed_s = static_cast<uint64_t>(status.st_mtime);
  return known && now_s > changed_s ? now_s - changed_s : 0;
}

bool is_old(uint64_t time_ns, uint64_t now_ns) {
  return now_ns > time_ns && now_ns - time_ns > kOldSeconds * 1'000'000'000;
}

bool is_gone(const format::FileHeader& memory, const Identity& self) {
  if (memory.boot_id[0] != self.boot_id[0] || memory.boot_id[1] != self.boot_id[1]) {
    return true;
  }
  if (memory.pid_namespace == self.pid_namespace) {
    return !is_running(memory.pid, memory.start_time);
  }
  const uint32_t newest = memory.anchor_index & 1;
  // A process of another time namespace may count from elsewhere: then the time of day has to
  // agree.
  return is_old(memory.anchor_boottime_ns[1 + newest], boottime_ns()) &&
         ((memory.keep_flags & format::kMachineBoottime) != 0 ||
          is_old(memory.anchors[newest].realtime_ns, nanoseconds(CLOCK_REALTIME)));
}

// Whether the folder of the trace is what this process finds at its path.  Containers share
// /dev/shm, and the number of a process with it, more often than their folders.
bool sees_folder(const format::FileHeader& memory, const Identity& self) {
  return memory.mount_namespace == 0 || self.mount_namespace == 0 ||
         memory.mount_namespace == self.mount_namespace;
}

bool copied_out(format::FileHeader* memory, int descriptor) {
  CopyOut copy;
  return copy.start(memory, descriptor, CopyOut::LastWord::kWhenGone) &&
         (copy.finish() || copy.was_removed());
}

void finish(int folder, const char* name, const Identity& self) {
  const int file = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0 || age_seconds(file) < kYoungSeconds || flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (file >= 0) {
      close(file);
    }
    return;  // it has a keeper
  }
  format::FileHeader* const memory = map_trace_memory(file);
  const bool old = age_seconds(file) > kOldSeconds;
  const bool gone = memory && is_gone(*memory, self);
  if (gone && memory->gone_how == format::kNotSeenGone) {
    memory->gone_boottime_ns = boottime_ns();
    memory->gone_realtime_ns = nanoseconds(CLOCK_REALTIME);
    memory->gone_how = format::kSeenGone;
  }
  const bool copies = gone && (old || sees_folder(*memory, self));
  // Whoever sets one up has locked it: without a header it was given up.
  if ((copies && copied_out(memory, file)) || (old && gone) || !memory) {
    unlinkat(folder, name, 0);
  }
  if (memory) {
    struct stat status = {};
    fstat(file, &status);
    munmap(memory, static_cast<size_t>(status.st_size));
  }
  close(file);
}

}  // namespace

void finish_left_behind() noexcept {
  ShortText path;
  name_memory_folder(path);
  const int folder = open_private_folder(path.c_str());
  if (folder < 0) {
    return;
  }
  const Identity self = identify();
  for_each_entry(folder, format::kTraceSuffix,
                 [&](const char* name) { finish(folder, name, self); });
  close(folder);
}

}  // namespace traintrace
