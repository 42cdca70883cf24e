#include "interpose/copy_out.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming)
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "format/segments.h"
#include "interpose/clock.h"
#include "interpose/file_writing.h"
#include "interpose/final_copy.h"
#include "interpose/folder_limit.h"
#include "interpose/identity.h"
#include "interpose/pages.h"
#include "interpose/pointer_file.h"
#include "interpose/sections.h"
#include "interpose/tables.h"

namespace traintrace {
namespace {

constexpr uint64_t kBufferBytes = uint64_t{256} << 10;

void* map_private(uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

uint64_t memory_bytes(const format::FileHeader& memory) {
  const format::Section& last = memory.sections[memory.section_count - 1];
  return last.offset + last.bytes;
}

uint64_t hash_of(const char* page, uint64_t bytes) {
  const uint64_t hash = XXH3_64bits(page, bytes);
  return hash == 0 ? 1 : hash;  // 0: never copied
}

// Or was cut to nothing.  A file that takes the place of another may get its number, too.
bool is_trace(int file) {
  char magic[sizeof format::kMagic] = {};
  const ssize_t got = pread(file, magic, sizeof magic, 0);
  return got == 0 || (got == sizeof magic && memcmp(magic, format::kMagic, sizeof magic) == 0);
}

bool is_copied_elsewhere(const format::Section& section) {
  return section.kind == format::kEvents || section.kind == format::kChunkStates;
}

}  // namespace

bool CopyOut::start(format::FileHeader* memory, LastWord last_word) noexcept {
  memory_ = memory;
  last_word_ = last_word;
  const format::Section& events = section_of(memory, format::kEvents);
  page_hashes_ = static_cast<uint64_t*>(map_private(memory_bytes(*memory) / kPage * 8 + 8));
  chunks_seen_ = static_cast<ChunkSeen*>(
      map_private((events.bytes / events.element_bytes + 1) * sizeof(ChunkSeen)));
  buffer_ = static_cast<char*>(map_private(kBufferBytes));
  if (memory->copy_path[0]) {
    resume();
  }
  return page_hashes_ && chunks_seen_ && buffer_;
}

// A copy that is not there any more is not wanted.
void CopyOut::resume() noexcept {
  Text path(path_, sizeof path_);
  path << memory_->copy_path;
  format::FileHeader header = {};
  struct stat status = {};
  const int file = open(path_, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  const bool ours = file >= 0 && fstat(file, &status) == 0 &&
                    read(file, &header, sizeof header) == sizeof header &&
                    header.pid == memory_->pid && header.start_time == memory_->start_time;
  if (file >= 0) {
    close(file);
  }
  removed_ = !ours;
  inode_ = status.st_ino;
  // What has no holes lies elsewhere in it than in the memory.
  is_dense_ = ours && memcmp(header.sections, memory_->sections, sizeof header.sections) != 0;
}

// Opened for each round: where a thread of the job's process copies, a program that closes what it
// does not know would leave us with a number that soon means a file of its own.
bool CopyOut::open_copy() noexcept {
  if (removed_) {
    return false;
  }
  if (!path_[0]) {
    return find_place();
  }
  file_ = open(path_, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  struct stat status = {};
  if (file_ >= 0 && fstat(file_, &status) == 0 && status.st_ino == inode_ && is_trace(file_)) {
    return true;
  }
  removed_ = removed_ || file_ >= 0 || errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
  close_copy();
  return false;
}

void CopyOut::close_copy() noexcept {
  if (file_ >= 0) {
    close(file_);
  }
  file_ = -1;
}

// Under its name there is never a file without a header, which leads to the memory.
bool CopyOut::create_named(int folder) noexcept {
  constexpr int kAttempts = 100;
  ShortText first;
  name_trace(first, memory_->host, memory_->pid, memory_->start_time, 0, ".trace.first");
  unlinkat(folder, first.c_str(), 0);
  file_ = openat(folder, first.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  covered_ = 0;
  bool named = false;
  if (file_ >= 0 && cover_all() && copy_header(format::kPartial)) {
    for (int attempt = 0; attempt < kAttempts && !named; ++attempt) {
      ShortText name;
      name_trace(name, memory_->host, memory_->pid, memory_->start_time, attempt,
                 format::kTraceSuffix);
      named = syscall(SYS_renameat2, folder, first.c_str(), folder, name.c_str(),
                      RENAME_NOREPLACE) == 0;
      if (!named && errno == EINVAL) {  // a file system that cannot refuse to replace
        named = faccessat(folder, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
                renameat(folder, first.c_str(), folder, name.c_str()) == 0;
      } else if (!named && errno != EEXIST) {
        break;
      }
      if (named) {
        Text path(path_ + strlen(path_), sizeof path_ - strlen(path_));
        path << name.c_str();
      }
    }
  }
  if (!named) {
    const int problem = errno;
    unlinkat(folder, first.c_str(), 0);
    close_copy();
    errno = problem;
  }
  return named;
}

bool CopyOut::create_in(const CopyPlace& place) noexcept {
  constexpr uint64_t kLeast = uint64_t{8} << 20;
  create_folders(place.folder.c_str());
  const int folder = open_copy_folder(place);
  if (folder < 0) {
    return false;
  }
  const bool ours = place.ours || (memory_->keep_flags & format::kDefaultFolder) != 0;
  if (ours || (memory_->keep_flags & format::kFolderLimitAsked) != 0) {
    keep_below_limit(folder, *memory_);
  }
  if (room_left(folder, place.storage) < kLeast) {
    close(folder);
    errno = ENOSPC;
    return false;
  }
  Text path(path_, sizeof path_);
  path << place.folder.c_str() << "/";
  const bool created = create_named(folder);
  close(folder);
  struct stat status = {};
  if (!created || fstat(file_, &status) != 0) {
    path_[0] = '\0';
    return false;
  }
  inode_ = status.st_ino;
  storage_ = place.storage;
  return true;
}

bool CopyOut::find_place() noexcept {
  constexpr const char* kOverNetwork = "it lies on a network file system";
  CopyPlace places[kCopyPlaces];
  choose_copy_places(memory_->folder, places);
  const char* problem = kOverNetwork;
  for (const CopyPlace& place : places) {
    if (place.usable && create_in(place)) {
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
    if (&place == places && place.usable) {
      problem = errno == ENOSPC ? "not enough space" : "the folder cannot be opened";
    }
  }
  // Where the memory has a name, that is where the trace stays.
  if (load(memory_->no_place) == 0 && memory_->memory_path[0]) {
    write_pointer_file(memory_->folder, *memory_, memory_->memory_path);
  }
  publish(memory_->no_place, 1U);
  return false;
}

bool CopyOut::may_grow(uint64_t bytes) noexcept {
  if (bytes > room_) {
    return false;
  }
  room_ -= bytes;
  return true;
}

bool CopyOut::copy_pages(const format::Section& section, uint64_t ready) noexcept {
  bool whole = true;
  const char* const from = begin_of(*memory_, section);
  uint64_t gathered = 0;  // bytes in the buffer, which lie one after the other
  uint64_t first = 0;     // where in the section they belong
  // Only what is in the file counts as copied: a disk may refuse where there seemed to be room.
  const auto flush = [&] {
    const bool written = write_at(file_, section.offset + first, buffer_, gathered);
    for (uint64_t at = 0; written && at < gathered; at += kPage) {
      page_hashes_[(section.offset + first + at) / kPage] =
          hash_of(buffer_ + at, std::min(kPage, gathered - at));
    }
    whole = written && whole;
    gathered = 0;
  };
  for (uint64_t at = 0; at < ready; at += kPage) {
    const uint64_t bytes = std::min(kPage, ready - at);
    const uint64_t known = page_hashes_[(section.offset + at) / kPage];
    if (gathered + bytes > kBufferBytes || (gathered != 0 && at != first + gathered)) {
      flush();
    }
    copy_still(buffer_ + gathered, from + at, bytes);
    if (hash_of(buffer_ + gathered, bytes) == known ||
        (known == 0 && is_zero(buffer_ + gathered, bytes))) {
      continue;
    }
    if (known == 0 && !may_grow(bytes)) {
      whole = false;
      continue;
    }
    first = gathered == 0 ? at : first;
    gathered += bytes;
  }
  flush();
  return whole;
}

// First how much of it is whole, then the records: a copy never says more than it has.
bool CopyOut::copy_chunk(const format::Section& section, uint64_t index) noexcept {
  const char* const from = begin_of(*memory_, section) + index * section.element_bytes;
  const auto* const chunk = reinterpret_cast<const format::EventChunk*>(from);
  ChunkSeen& seen = chunks_seen_[index];
  const uint64_t ordinal = load(chunk->ordinal);
  const uint32_t committed = load(chunk->committed);
  const uint64_t bytes = sizeof *chunk + committed;
  if (ordinal == 0 || bytes > section.element_bytes ||
      (seen.ordinal == ordinal && seen.committed == committed)) {
    return true;
  }
  if (seen.ordinal == 0 && !may_grow(section.element_bytes)) {
    return false;
  }
  memcpy(buffer_, from, bytes);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (load(chunk->ordinal) != ordinal) {
    return true;  // somebody begins it anew: the next round has it
  }
  auto* const head = reinterpret_cast<format::EventChunk*>(buffer_);
  head->committed = committed;
  if (!write_at(file_, section.offset + index * section.element_bytes, buffer_, bytes)) {
    return false;
  }
  seen = {ordinal, committed};
  return true;
}

// What threads are done with goes to segments, where all is kept.
bool CopyOut::copy_chunks(const format::Section& section, uint64_t ready) noexcept {
  bool whole = true;
  const bool keeps_all = (memory_->keep_flags & format::kKeepAll) != 0;
  const auto* const states = reinterpret_cast<const format::ChunkState*>(
      begin_of(*memory_, section_of(memory_, format::kChunkStates)));
  constexpr uint64_t kStep = 64;
  for (uint64_t i = 0; i < ready / section.element_bytes; ++i) {
    if (i % kStep == 0) {
      fetch_add(memory_->keeper_steps, 1U);
    }
    if (!keeps_all || load(states[i].state) % 2 != 0) {
      whole = copy_chunk(section, i) && whole;
    }
  }
  return whole;
}

bool CopyOut::copy_header(format::CopyState state) noexcept {
  format::FileHeader header;
  memcpy(&header, memory_, sizeof header);
  header.copy_state = state;
  header.copied_realtime_ns = nanoseconds(CLOCK_REALTIME);
  return write_at(file_, 0, &header, sizeof header);
}

// So that all that is ready lies within the file; most of that is a hole.
bool CopyOut::cover_all() noexcept {
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

// What was recorded, in one number.  Of chunks, how far each has come tells.
uint64_t CopyOut::digest() const noexcept {
  uint64_t digest = 0;
  for (uint32_t i = 0; i < memory_->section_count; ++i) {
    const format::Section& section = memory_->sections[i];
    const char* const from = begin_of(*memory_, section);
    const uint64_t ready = load(memory_->ready_bytes[i]);
    if (section.kind == format::kEvents) {
      for (uint64_t at = 0; at < ready; at += section.element_bytes) {
        const auto* const chunk = reinterpret_cast<const format::EventChunk*>(from + at);
        const uint64_t words[] = {load(chunk->ordinal), load(chunk->committed)};
        digest = XXH3_64bits_withSeed(words, sizeof words, digest);
      }
    } else if (!is_copied_elsewhere(section)) {
      digest = XXH3_64bits_withSeed(from, ready, digest);
    }
  }
  return digest;
}

// The header last: with it a new copy becomes a trace.
bool CopyOut::copy_changes() noexcept {
  if (load(memory_->exit_kind) != format::kNotExited && path_[0]) {
    const bool is_last = last_word_ == LastWord::kAtExit;
    const bool is_known = is_dense_ && digest() == final_digest_;
    if (is_known || make_final(is_last ? format::kFinal : format::kPartial)) {
      return true;
    }
  }
  if (is_dense_ || !open_copy() || !cover_all()) {
    close_copy();
    return false;
  }
  room_ = room_left(file_, storage_);
  bool whole = true;
  for (uint32_t i = 0; i < memory_->section_count; ++i) {
    const format::Section& section = memory_->sections[i];
    const uint64_t ready = load(memory_->ready_bytes[i]);
    fetch_add(memory_->keeper_steps, 1U);
    if (section.kind == format::kEvents) {
      whole = copy_chunks(section, ready) && whole;
    } else if (!is_copied_elsewhere(section)) {
      whole = copy_pages(section, ready) && whole;
    }
  }
  whole = copy_header(format::kPartial) && whole;
  close_copy();
  return whole;
}

bool CopyOut::make_final(format::CopyState state) noexcept {
  if (!open_copy()) {
    return false;
  }
  close_copy();
  ShortText path;
  path << path_ << ".new";
  unlink(path.c_str());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    return false;
  }
  struct stat status = {};
  const uint64_t before = digest();
  const bool whole = path.whole() && final_copy_bytes(*memory_) <= room_left(file, storage_) &&
                     write_final_copy(*memory_, state, file) && fstat(file, &status) == 0;
  close(file);
  if (!whole || rename(path.c_str(), path_) != 0) {
    unlink(path.c_str());
    return false;
  }
  inode_ = status.st_ino;
  is_dense_ = true;
  final_digest_ = before;
  return true;
}

bool CopyOut::complete_final() noexcept {
  if (!open_copy()) {
    return false;
  }
  const bool done = complete_final_copy(*memory_, file_);
  close_copy();
  return done;
}

// Where there is no room for two files, the one that is there is completed.
bool CopyOut::finish() noexcept {
  if (is_dense_ && digest() == final_digest_) {
    return complete_final();
  }
  if (!path_[0] && !copy_changes()) {
    return false;
  }
  if (make_final(format::kFinal)) {
    return true;
  }
  if (is_dense_ || !copy_changes() || !open_copy()) {
    return false;
  }
  const bool done = copy_header(format::kFinal);
  close_copy();
  return done;
}

}  // namespace traintrace
