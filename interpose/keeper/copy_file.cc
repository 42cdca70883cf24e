#include "interpose/keeper/copy_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "format/segments.h"
#include "interpose/base/file_writing.h"
#include "interpose/keeper/final_copy.h"
#include "interpose/keeper/folder_limit.h"
#include "interpose/keeper/pointer_file.h"
#include "interpose/life/identity.h"
#include "interpose/record/clock.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

// Of a file; anything else that open says may pass: a disk that fails, or is not mounted again yet.
bool means_removed(int problem) {
  return problem == ENOENT || problem == ENOTDIR || problem == ELOOP;
}

// Of the beginning of a file that could be read.  A file that takes the place of another may get
// its number, too.
bool is_trace_or_empty(const char* magic, ssize_t got) {
  return got == 0 || (got == sizeof format::kMagic &&
                      memcmp(magic, format::kMagic, sizeof format::kMagic) == 0);
}

}  // namespace

// A copy that is not there any more is not wanted.
bool CopyFile::resume() noexcept {
  if (path_[0] || removed_ || !load(memory_->copy_path[0])) {
    return true;
  }
  const int file = ::open(memory_->copy_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    removed_ = means_removed(errno);
    return removed_;
  }
  format::FileHeader header = {};
  struct stat status = {};
  const ssize_t got = fstat(file, &status) == 0 ? read(file, &header, sizeof header) : -1;
  ::close(file);
  if (got < 0) {
    return false;
  }
  removed_ = got != sizeof header || header.pid != memory_->pid ||
             header.start_time != memory_->start_time;
  if (!removed_) {
    inode_ = status.st_ino;
    // What has no holes lies elsewhere in it than in the memory.
    is_dense_ = memcmp(header.sections, memory_->sections, sizeof header.sections) != 0;
    Text path(path_, sizeof path_);
    path << memory_->copy_path;
  }
  return true;
}

// Opened for each round: where a thread of the job's process copies, a program that closes what it
// does not know would leave us with a number that soon means a file of its own.
bool CopyFile::open() noexcept {
  if (removed_) {
    return false;
  }
  if (!path_[0]) {
    return find_place();
  }
  file_ = ::open(path_, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file_ < 0) {
    removed_ = means_removed(errno);
    return false;
  }
  struct stat status = {};
  char magic[sizeof format::kMagic] = {};
  const ssize_t got = fstat(file_, &status) == 0 ? pread(file_, magic, sizeof magic, 0) : -1;
  removed_ = got >= 0 && (status.st_ino != inode_ || !is_trace_or_empty(magic, got));
  if (got < 0 || removed_) {
    close();
    return false;
  }
  return true;
}

void CopyFile::close() noexcept {
  if (file_ >= 0) {
    ::close(file_);
  }
  file_ = -1;
}

// Adds the name to the path of the folder.
bool CopyFile::rename_first(int folder, const char* first) noexcept {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ShortText name;
    name_trace(name, memory_->host, memory_->pid, memory_->start_time, attempt,
               format::kTraceSuffix);
    bool named = syscall(SYS_renameat2, folder, first, folder, name.c_str(), RENAME_NOREPLACE) == 0;
    if (!named && errno == EINVAL) {  // a file system that cannot refuse to replace
      named = faccessat(folder, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
              renameat(folder, first, folder, name.c_str()) == 0;
    } else if (!named && errno != EEXIST) {
      return false;
    }
    if (named) {
      Text path(path_ + strlen(path_), sizeof path_ - strlen(path_));
      path << name.c_str();
      return true;
    }
  }
  return false;
}

// Under its name there is never a file without a header, which leads to the memory.
bool CopyFile::create_named(int folder) noexcept {
  ShortText first;
  name_trace(first, memory_->host, memory_->pid, memory_->start_time, 0, ".trace.first");
  unlinkat(folder, first.c_str(), 0);
  file_ = openat(folder, first.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  covered_ = 0;
  if (file_ >= 0 && cover_all() && write_header(format::kPartial) &&
      rename_first(folder, first.c_str())) {
    return true;
  }
  const int problem = errno;
  unlinkat(folder, first.c_str(), 0);
  close();
  errno = problem;
  return false;
}

bool CopyFile::create_in(const CopyPlace& place) noexcept {
  constexpr uint64_t kLeast = uint64_t{8} << 20;
  const int not_created = create_folders(place.folder.c_str());
  const int folder = open_copy_folder(place);
  if (folder < 0) {
    errno = errno == ENOENT && not_created != 0 ? not_created : errno;
    return false;
  }
  const bool ours = place.ours || (memory_->keep_flags & format::kDefaultFolder) != 0;
  if (ours || (memory_->keep_flags & format::kFolderLimitAsked) != 0) {
    keep_below_limit(folder, *memory_);
  }
  if (room_left(folder, place.storage) < kLeast) {
    ::close(folder);
    errno = ENOSPC;
    return false;
  }
  Text path(path_, sizeof path_);
  path << place.folder.c_str() << "/";
  const bool created = create_named(folder);
  ::close(folder);
  struct stat status = {};
  if (!created || fstat(file_, &status) != 0) {
    path_[0] = '\0';
    return false;
  }
  inode_ = status.st_ino;
  storage_ = place.storage;
  return true;
}

// For people: 63 bytes at most (FileHeader::not_in_folder).
static const char* why_not_in_folder(int problem) noexcept {
  switch (problem) {
    case ENOSPC:
      return "not enough space";
    case EDQUOT:
      return "the disk quota is used up";
    case EROFS:
      return "the file system is read-only";
    case EACCES:
    case EPERM:
      return "this user may not write there";
    case ENOTDIR:
      return "a file is in its place, or in that of a folder above it";
    default:
      return "the folder cannot be opened";
  }
}

bool CopyFile::find_place() noexcept {
  CopyPlace places[kCopyPlaces];
  choose_copy_places(memory_->folder, places);
  const char* problem = places[0].problem;
  for (const CopyPlace& place : places) {
    if (place.problem == nullptr && create_in(place)) {
      if (&place != places) {
        Text why(memory_->not_in_folder, sizeof memory_->not_in_folder);
        why << problem;
        write_pointer_file(memory_->folder, *memory_, path_);
      }
      // The first letter last: whoever takes our place finds all of it or nothing.
      memcpy(memory_->copy_path + 1, path_ + 1, sizeof path_ - 1);
      publish(memory_->copy_path[0], path_[0]);
      publish(memory_->no_place, 0U);
      return true;
    }
    if (&place == places && place.problem == nullptr) {
      problem = why_not_in_folder(errno);
    }
  }
  // Where the memory has a name, that is where the trace stays.
  if (load(memory_->no_place) == 0 && memory_->memory_path[0]) {
    write_pointer_file(memory_->folder, *memory_, memory_->memory_path);
  }
  publish(memory_->no_place, 1U);
  return false;
}

bool CopyFile::write(uint64_t offset, const char* from, uint64_t bytes) noexcept {
  return write_at(file_, offset, from, bytes);
}

bool CopyFile::write_header(format::CopyState state) noexcept {
  format::FileHeader header;
  memcpy(&header, memory_, sizeof header);
  header.copy_state = state;
  header.copied_realtime_ns = nanoseconds(CLOCK_REALTIME);
  return write_at(file_, 0, &header, sizeof header);
}

// So that all that is ready lies within the file; most of that is a hole.
bool CopyFile::cover_all() noexcept {
  uint64_t end = format::kHeaderBytes;
  for (uint32_t i = 0; i < memory_->section_count; ++i) {
    const format::Section& section = memory_->sections[i];
    const uint64_t ready = section.offset + load(memory_->ready_bytes[i]);
    end = ready > end && section.kind != format::kChunkStates ? ready : end;
  }
  if (end > covered_) {
    if (ftruncate(file_, static_cast<off_t>(end)) != 0) {
      return false;
    }
    covered_ = end;
  }
  return true;
}

bool CopyFile::make_final(format::CopyState state) noexcept {
  if (!open()) {
    return false;
  }
  close();
  ShortText path;
  path << path_ << ".new";
  unlink(path.c_str());
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    return false;
  }
  struct stat status = {};
  const bool whole = path.whole() && final_copy_bytes(*memory_) <= room_left(file, storage_) &&
                     write_final_copy(*memory_, descriptor_, state, file) &&
                     fstat(file, &status) == 0;
  ::close(file);
  if (!whole || rename(path.c_str(), path_) != 0) {
    unlink(path.c_str());
    return false;
  }
  inode_ = status.st_ino;
  is_dense_ = true;
  return true;
}

bool CopyFile::complete_final() noexcept {
  if (!open()) {
    return false;
  }
  const bool done = complete_final_copy(*memory_, file_);
  close();
  return done;
}

}  // namespace traintrace
