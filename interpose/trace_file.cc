#include "interpose/trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "interpose/layout.h"
#include "interpose/storage.h"

namespace traintrace {
namespace {

// Left free on a disk: the job's checkpoints matter more than its trace.
constexpr uint64_t kLeaveFreeBytes = 64 << 20;
// A trace in memory counts as the job's own memory, so it must be a small part of what is left.
constexpr uint64_t kMemoryFactor = 4;
// Where nobody asked for memory, all that lies there is a small part of it: traces of jobs that
// ended stay, and a job that is started again and again would fill the machine with them.
constexpr uint64_t kUnaskedPart = 8;
constexpr size_t kMountinfoBytes = 1 << 20;
constexpr int kMaxPlaces = 4;

struct Place {
  ShortText folder;
  Storage storage = Storage::kLocal;
  bool usable = false;
  bool ours = false;  // a folder that only this user may own
};

void create_folders(const char* path) {
  ShortText copy;
  copy << path;
  char* const text = const_cast<char*>(copy.c_str());
  for (char* at = text + 1; *at; ++at) {
    if (*at == '/') {
      *at = '\0';
      mkdir(text, 0700);
      *at = '/';
    }
  }
  mkdir(text, 0700);
}

void name_trace(Text& into, const Identity& identity, int attempt, const char* ending) {
  into << identity.host << "." << identity.pid << "." << static_cast<int64_t>(identity.start_time);
  if (attempt) {
    into << "." << attempt;
  }
  into << ending;
}

// In a folder that everybody may write to, somebody else could have put ours in place.
int open_folder(const Place& place) {
  return place.ours ? open_private_folder(place.folder.c_str())
                    : open(place.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool has_room(int folder, const Place& place, uint64_t bytes) {
  struct statvfs status;
  if (fstatvfs(folder, &status) != 0) {
    return false;
  }
  const uint64_t free_bytes = static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
  if (place.storage == Storage::kMemory) {
    const uint64_t all_bytes = static_cast<uint64_t>(status.f_blocks) * status.f_frsize;
    if (place.ours && all_bytes - free_bytes + bytes > all_bytes / kUnaskedPart) {
      return false;
    }
    return free_bytes / kMemoryFactor >= bytes && memory_headroom() / kMemoryFactor >= bytes;
  }
  return free_bytes >= bytes + kLeaveFreeBytes;
}

// Past RLIMIT_FSIZE the kernel would send SIGXFSZ.
bool within_file_limit(uint64_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

// fallocate(2) itself: glibc's posix_fallocate writes every block where the file system cannot.
bool allocate(int file, uint64_t bytes) {
  int result = 0;
  int interruptions = 0;
  do {
    result = fallocate(file, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR && ++interruptions < 100);
  return result == 0;
}

// After an exec the process has the same name again.
int create_file(int folder, const Identity& identity, Text& name) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ShortText candidate;
    name_trace(candidate, identity, attempt, ".trace");
    const int file =
        openat(folder, candidate.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0 || errno != EEXIST) {
      name << candidate.c_str();
      return file;
    }
  }
  return -1;
}

format::FileHeader* map_file(int file, uint64_t bytes) {
  if (!allocate(file, bytes)) {
    return nullptr;
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<format::FileHeader*>(memory);
}

void fill_header(format::FileHeader* file, const format::FileHeader& layout,
                 const Identity& identity) {
  memcpy(file->magic, format::kMagic, sizeof file->magic);
  file->version = format::kVersion;
  file->header_bytes = format::kHeaderBytes;
  file->section_count = layout.section_count;
  memcpy(file->sections, layout.sections, sizeof file->sections);
  file->pid = identity.pid;
  file->parent_pid = identity.parent_pid;
  file->start_time = identity.start_time;
  memcpy(file->boot_id, identity.boot_id, sizeof file->boot_id);
  file->pid_namespace = identity.pid_namespace;
  memcpy(file->host, identity.host, sizeof file->host);
  write_schema(file);
}

// False: `why` says what did not work.
bool create_in(const Place& place, const TraceSize& size, const Identity& identity,
               TraceFile& into) {
  format::FileHeader layout = {};
  const uint64_t bytes = lay_out(size, layout);
  create_folders(place.folder.c_str());
  const int folder = open_folder(place);
  if (folder < 0 || !has_room(folder, place, bytes)) {
    into.why = folder < 0 ? "the folder cannot be opened" : "not enough space";
    if (folder >= 0) {
      close(folder);
    }
    return false;
  }
  ShortText name;
  const int file = create_file(folder, identity, name);
  into.why = file < 0 ? "no file can be created" : "not enough space";
  into.header = file < 0 ? nullptr : map_file(file, bytes);
  if (into.header) {
    into.bytes = bytes;
    into.ring_mb = size.ring_mb;
    into.path << place.folder.c_str() << "/" << name.c_str();
    fill_header(into.header, layout, identity);
  } else if (file >= 0) {
    unlinkat(folder, name.c_str(), 0);
  }
  if (file >= 0) {
    close(file);
  }
  close(folder);
  return into.header != nullptr;
}

void absolute(const char* path, Text& into) {
  char folder[kMaxPath];
  if (path[0] != '/' && getcwd(folder, sizeof folder)) {
    into << folder << "/";
  }
  into << path;
}

void choose_places(const char* dir, Place (&places)[kMaxPlaces]) {
  void* const memory =
      mmap(nullptr, kMountinfoBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return;
  }
  char* const mountinfo = static_cast<char*>(memory);
  read_file("/proc/self/mountinfo", mountinfo, kMountinfoBytes);
  constexpr const char* kElsewhere[] = {"/tmp", "/var/tmp", "/dev/shm"};
  for (int i = 0; i < kMaxPlaces; ++i) {
    ShortText path;
    if (i == 0) {
      absolute(dir, path);
    } else {
      path << kElsewhere[i - 1] << "/traintrace-" << static_cast<int64_t>(geteuid());
    }
    Place& place = places[i];
    place.ours = i > 0;
    place.usable = path.whole() && path.c_str()[0] == '/' &&
                   resolve_locally(mountinfo, path.c_str(), place.folder);
    place.storage = storage_of(mountinfo, place.folder.c_str());
  }
  munmap(memory, kMountinfoBytes);
}

}  // namespace

void create_trace_file(const Settings& settings, const Identity& identity,
                       TraceFile& into) noexcept {
  Place places[kMaxPlaces];
  choose_places(settings.dir, places);
  constexpr const char* kOverNetwork = "it lies on a network file system";
  into.why = kOverNetwork;
  const char* dir_problem = kOverNetwork;
  TraceSize size = usual_size(settings.ring_mb, settings.gpu_progress != GpuProgress::kObserve);
  do {
    format::FileHeader layout = {};
    if (!within_file_limit(lay_out(size, layout))) {
      into.why = "files may not be that large";
      continue;
    }
    for (const Place& place : places) {
      if (place.usable && create_in(place, size, identity, into)) {
        into.elsewhere = &place == places ? nullptr : dir_problem;
        return;
      }
      dir_problem = &place == places && place.usable ? into.why : dir_problem;
    }
  } while (make_smaller(size));
}

void write_pointer_file(const char* dir, const Identity& identity, const char* trace) noexcept {
  ShortText folder;
  absolute(dir, folder);
  if (!folder.whole()) {
    return;
  }
  create_folders(folder.c_str());
  ShortText content;
  content << "traintrace-pointer 1\n" << trace << "\n" << identity.host << "\n";
  for (int attempt = 0; attempt < 100; ++attempt) {
    ShortText path;
    path << folder.c_str() << "/";
    name_trace(path, identity, attempt, ".pointer");
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0) {
      if (write(file, content.c_str(), content.length()) < 0) {
        unlink(path.c_str());
      }
      close(file);
    }
    if (file >= 0 || errno != EEXIST) {
      return;
    }
  }
}

}  // namespace traintrace
