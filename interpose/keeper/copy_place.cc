#include "interpose/keeper/copy_place.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace traintrace {
namespace {

constexpr uint64_t kLeaveFreeBytes = uint64_t{4} << 30;
constexpr uint64_t kLeaveFreePart = 20;  // 5 %
constexpr uint64_t kMemoryFactor = 4;
constexpr size_t kLongestName = 160;  // of the files there: host, two numbers, endings
constexpr size_t kMountinfoBytes = 1 << 20;

const char* problem_of(Resolved resolved) {
  switch (resolved) {
    case Resolved::kLocally:
      return nullptr;
    case Resolved::kOverNetwork:
      return "it lies on a network file system";
    case Resolved::kTooLong:
      return "its path is too long";
    case Resolved::kUnknown:
      return "its path is too long, or the working directory was removed";
    case Resolved::kInCircles:
      return "its symbolic links lead in a circle";
  }
  return nullptr;
}

Resolved resolve(const char* mountinfo, const Text& path, Text& folder) {
  if (!path.whole()) {
    return Resolved::kTooLong;
  }
  if (path.c_str()[0] != '/') {  // it was too long for the header, or could not be told
    return Resolved::kUnknown;
  }
  const Resolved resolved = resolve_locally(mountinfo, path.c_str(), folder);
  return resolved == Resolved::kLocally && folder.length() + kLongestName >= kMaxPath
             ? Resolved::kTooLong
             : resolved;
}

}  // namespace

void choose_copy_places(const char* dir, CopyPlace (&places)[kCopyPlaces]) noexcept {
  void* const memory =
      mmap(nullptr, kMountinfoBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    for (CopyPlace& place : places) {
      place.problem = "there is no memory to look for it";
    }
    return;
  }
  char* const mountinfo = static_cast<char*>(memory);
  read_file("/proc/self/mountinfo", mountinfo, kMountinfoBytes);
  constexpr const char* kElsewhere[] = {"/tmp", "/var/tmp"};
  for (int i = 0; i < kCopyPlaces; ++i) {
    ShortText path;
    if (i == 0) {
      path << dir;
    } else {
      path << kElsewhere[i - 1] << "/traintrace-" << static_cast<int64_t>(geteuid());
    }
    CopyPlace& place = places[i];
    place.ours = i > 0;
    place.problem = problem_of(resolve(mountinfo, path, place.folder));
    place.storage = storage_of(mountinfo, place.folder.c_str());
  }
  munmap(memory, kMountinfoBytes);
}

int create_folders(const char* path) noexcept {
  int problem = 0;
  const auto create = [&problem](const char* folder) {
    if (mkdir(folder, 0700) != 0 && errno != EEXIST && problem == 0) {
      problem = errno;
    }
  };
  ShortText copy;
  copy << path;
  char* const text = const_cast<char*>(copy.c_str());
  for (char* at = text + 1; *at; ++at) {
    if (*at == '/') {
      *at = '\0';
      create(text);
      *at = '/';
    }
  }
  create(text);
  return problem;
}

int open_copy_folder(const CopyPlace& place) noexcept {
  return place.ours ? open_private_folder(place.folder.c_str())
                    : open(place.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

uint64_t room_left(int descriptor, Storage storage) noexcept {
  struct statvfs status;
  if (fstatvfs(descriptor, &status) != 0) {
    return 0;
  }
  const uint64_t free_bytes = static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
  if (storage == Storage::kMemory) {
    return std::min(free_bytes, memory_headroom()) / kMemoryFactor;
  }
  const uint64_t all_bytes = static_cast<uint64_t>(status.f_blocks) * status.f_frsize;
  const uint64_t left_free = std::max(kLeaveFreeBytes, all_bytes / kLeaveFreePart);
  return free_bytes > left_free ? free_bytes - left_free : 0;
}

}  // namespace traintrace
