#include "interpose/record/memory_region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "interpose/keeper/storage.h"
#include "interpose/record/layout.h"
#include "interpose/record/map_memory.h"
#include "interpose/record/sections.h"

namespace traintrace {
namespace {

// The memory is the job's own, so it must be a small part of what is left.
constexpr uint64_t kMemoryFactor = 4;
// Memories whose processes and keepers were killed stay until the next keeper finds them: all of
// them together are a small part of the file system.
constexpr uint64_t kPartInUse = 8;

// What it may come to, unless the tables of what is live grow.
uint64_t expected_bytes(const format::FileHeader& layout, const TraceSize& size) {
  uint64_t bytes = (uint64_t{size.ring_mb} + size.definitions_mb) << 20;
  for (uint32_t i = 0; i < layout.section_count; ++i) {
    const uint32_t kind = layout.sections[i].kind;
    bytes += kind == format::kEvents || kind == format::kDefinitions ? 0 : layout.ready_bytes[i];
  }
  return bytes;
}

// Past RLIMIT_FSIZE the kernel would send SIGXFSZ; of a file in memory, too.
bool within_file_limit(uint64_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

bool is_roomy(int folder, uint64_t bytes) {
  struct statfs status = {};
  if (fstatfs(folder, &status) != 0 || status.f_type != TMPFS_MAGIC) {
    return false;
  }
  const auto block = static_cast<uint64_t>(status.f_bsize);
  const uint64_t free_bytes = status.f_bavail * block;
  const uint64_t all_bytes = status.f_blocks * block;
  if (all_bytes == 0) {
    return true;  // tmpfs without limit
  }
  return free_bytes / kMemoryFactor >= bytes &&
         all_bytes - free_bytes + bytes <= all_bytes / kPartInUse;
}

// Somebody may be looking at it, for a moment (left_behind.cc).
void lock(int file) {
  constexpr int kTries = 1000;
  for (int tries = 0; flock(file, LOCK_EX | LOCK_NB) != 0 && tries < kTries; ++tries) {
    sched_yield();
  }
}

int create_named(const Identity& identity, uint64_t bytes, Text& path) {
  ShortText folder_path;
  name_memory_folder(folder_path);
  mkdir(folder_path.c_str(), 0700);
  const int folder = open_private_folder(folder_path.c_str());
  if (folder < 0) {
    return -1;
  }
  constexpr int kAttempts = 100;
  int file = -1;
  for (int attempt = 0; file < 0 && attempt < kAttempts && is_roomy(folder, bytes); ++attempt) {
    ShortText name;
    name_trace(name, identity.host, identity.pid, identity.start_time, attempt, ".trace");
    file = openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0) {
      // It goes with the descriptor to the keeper, and tells others that this memory has one.
      lock(file);
      path << folder_path.c_str() << "/" << name.c_str();
    } else if (errno != EEXIST) {
      break;
    }
  }
  close(folder);
  return file;
}

int create_nameless(const Identity& identity) {
  ShortText name;
  name_trace(name, identity.host, identity.pid, identity.start_time, 0, ".trace");
  constexpr unsigned kNotExecutable = 8;  // MFD_NOEXEC_SEAL, Linux 6.3: some systems insist on it
  const int file = memfd_create(name.c_str(), MFD_CLOEXEC | kNotExecutable);
  return file >= 0 ? file : memfd_create(name.c_str(), MFD_CLOEXEC);
}

// fallocate(2) itself: glibc's posix_fallocate writes every block where the file system cannot.
bool allocate(int file, uint64_t offset, uint64_t bytes) {
  int result = 0;
  int interruptions = 0;
  do {
    result = fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR && ++interruptions < 100);
  return result == 0;
}

bool allocate_beginnings(int file, const format::FileHeader& layout) {
  if (!allocate(file, 0, format::kHeaderBytes)) {
    return false;
  }
  for (uint32_t i = 0; i < layout.section_count; ++i) {
    if (!allocate(file, layout.sections[i].offset, layout.ready_bytes[i])) {
      return false;
    }
  }
  return true;
}

// Its pages are there: with their mapping, too, the job's threads do not fault on each of them,
// every 40 calls or so.  What it grows by is populated by growth.cc.
void populate_beginning_of_ring(void* memory, const format::FileHeader& layout) {
  for (uint32_t i = 0; i < layout.section_count; ++i) {
    if (layout.sections[i].kind == format::kEvents) {
      populate(static_cast<char*>(memory) + layout.sections[i].offset, layout.ready_bytes[i]);
    }
  }
}

format::FileHeader* map_memory(int file, uint64_t bytes, const format::FileHeader& layout) {
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0 || !allocate_beginnings(file, layout)) {
    return nullptr;
  }
  void* const memory = map_sparse_file(file, bytes);
  if (!memory) {
    return nullptr;
  }
  madvise(memory, bytes, MADV_DONTDUMP);  // of no use in the job's core files
  populate_beginning_of_ring(memory, layout);
  return static_cast<format::FileHeader*>(memory);
}

void fill_header(format::FileHeader* file, const format::FileHeader& layout,
                 const Identity& identity) {
  memcpy(file->magic, format::kMagic, sizeof file->magic);
  file->version = format::kVersion;
  file->header_bytes = format::kHeaderBytes;
  file->section_count = layout.section_count;
  memcpy(file->sections, layout.sections, sizeof file->sections);
  memcpy(file->ready_bytes, layout.ready_bytes, sizeof file->ready_bytes);
  file->pid = identity.pid;
  file->parent_pid = identity.parent_pid;
  file->start_time = identity.start_time;
  memcpy(file->boot_id, identity.boot_id, sizeof file->boot_id);
  file->pid_namespace = identity.pid_namespace;
  file->mount_namespace = identity.mount_namespace;
  memcpy(file->host, identity.host, sizeof file->host);
  file->gone_status = -1;
  file->keeper_descriptor = -1;
  bool of_launcher = false;
  file->run_key = run_key_of(identity, of_launcher);
  file->keep_flags = of_launcher ? format::kRunOfLauncher : 0U;
  file->launch_rank = identity.launch_rank;
  file->launch_world = identity.launch_world;
  write_schema(file);
}

void absolute(const char* path, Text& into) {
  char folder[kMaxPath];
  if (path[0] != '/' && getcwd(folder, sizeof folder)) {
    into << folder << "/";
  }
  into << path;
}

void write_orders(format::FileHeader* file, const Settings& settings) {
  Text folder(file->folder, sizeof file->folder);
  absolute(settings.dir, folder);
  if (!folder.whole()) {
    file->folder[0] = '\0';
  }
  Text collect(file->collect, sizeof file->collect);
  if (settings.collect) {
    absolute(settings.collect, collect);
  }
  if (!collect.whole()) {
    file->collect[0] = '\0';
    file->collect_problem = ENAMETOOLONG;
  }
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  file->folder_limit_bytes = settings.folder_mb * kMiB;
  file->finished_ring_bytes = settings.finished_ring_mb * kMiB;
  file->keep_flags |= (settings.full ? format::kKeepAll : 0U) |
                      (settings.default_dir ? format::kDefaultFolder : 0U) |
                      (settings.folder_mb_asked ? format::kFolderLimitAsked : 0U);
}

bool create(const TraceSize& size, const Settings& settings, const Identity& identity,
            MemoryRegion& into) {
  format::FileHeader layout = {};
  const uint64_t bytes = lay_out(size, layout);
  if (!within_file_limit(bytes)) {
    into.why = "files may not be that large";
    return false;
  }
  const uint64_t expected = expected_bytes(layout, size);
  if (memory_headroom() / kMemoryFactor < expected) {
    into.why = "not enough memory";
    return false;
  }
  char path_storage[sizeof layout.memory_path];
  Text path(path_storage, sizeof path_storage);
  int file = create_named(identity, expected, path);
  file = file < 0 ? create_nameless(identity) : file;
  into.why = file < 0 ? "no memory can be shared" : "not enough memory";
  into.header = file < 0 ? nullptr : map_memory(file, bytes, layout);
  if (!into.header) {
    if (path.length()) {
      unlink(path.c_str());
    }
    if (file >= 0) {
      close(file);
    }
    return false;
  }
  into.bytes = bytes;
  into.descriptor = file;
  into.ring_mb = size.ring_mb;
  fill_header(into.header, layout, identity);
  memcpy(into.header->memory_path, path_storage, path.length() + 1);
  write_orders(into.header, settings);
  return true;
}

}  // namespace

void name_memory_folder(Text& into) noexcept {
  into << "/dev/shm/traintrace-" << static_cast<int64_t>(geteuid());
}

void create_memory_region(const Settings& settings, const Identity& identity, bool is_child,
                          MemoryRegion& into) noexcept {
  const bool progress = settings.gpu_progress != GpuProgress::kObserve;
  TraceSize size =
      is_child ? size_of_child(settings.ring_mb, progress) : usual_size(settings.ring_mb, progress);
  into.why_smaller = nullptr;
  while (!create(size, settings, identity, into)) {
    into.why_smaller = into.why_smaller ? into.why_smaller : into.why;
    if (!make_smaller(size)) {
      return;
    }
  }
}

}  // namespace traintrace
