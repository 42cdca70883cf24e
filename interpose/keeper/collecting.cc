#include "interpose/keeper/collecting.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "format/pack_name.h"
#include "format/pack_writer.h"
#include "interpose/base/files.h"
#include "interpose/keeper/copy_place.h"
#include "interpose/keeper/final_copy.h"
#include "interpose/keeper/keeper.h"
#include "interpose/life/identity.h"
#include "interpose/record/clock.h"
#include "interpose/record/sections.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

using format::FileHeader;

constexpr uint64_t kQuietNs = 30'000'000'000;
constexpr uint64_t kAgainNs = 300'000'000'000;
// For what a child does that was there already, and for the last pack.
constexpr uint64_t kBeforeLastNs = 2'000'000'000;
constexpr uint64_t kLastNs = 20'000'000'000;

template <class Element>
struct Elements {
  const Element* begin;
  uint64_t count;
};

template <class Element>
Elements<Element> elements_of(FileHeader& memory, format::SectionKind kind) {
  const int index = index_of(&memory, kind);
  const format::Section& section = memory.sections[index];
  const bool is_there = section.kind == kind && section.element_bytes == sizeof(Element);
  return {reinterpret_cast<const Element*>(at(&memory, section)),
          is_there ? load(memory.ready_bytes[index]) / sizeof(Element) : 0};
}

uint64_t records_of(FileHeader& memory) {
  const auto threads = elements_of<format::Thread>(memory, format::kThreads);
  uint64_t records = 0;
  for (uint64_t i = 0; i < threads.count; ++i) {
    records += load(threads.begin[i].serial) ? load(threads.begin[i].events) : 0;
  }
  return records;
}

uint32_t aborted_in(FileHeader& memory) {
  const auto all = elements_of<format::Communicator>(memory, format::kCommunicators);
  uint32_t aborted = 0;
  for (uint64_t i = 0; i < all.count; ++i) {
    aborted += (load(all.begin[i].flags) & format::kAborted) != 0 ? 1 : 0;
  }
  return aborted;
}

// The trace as one file without holes; -1: it cannot be had.
int open_trace(FileHeader& memory, const char* final_copy) {
  if (final_copy && final_copy[0]) {
    return open(final_copy, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  }
  const int copy = memfd_create("traintrace-collect", MFD_CLOEXEC);
  const bool over = memory.gone_how != format::kNotSeenGone;
  const format::CopyState state = over ? format::kFinal : format::kPartial;
  if (copy >= 0 && !write_final_copy(memory, kKeeperDescriptor, state, copy)) {
    close(copy);
    return -1;
  }
  return copy;
}

bool write_pack(const FileHeader& memory, int trace, int file, format::PackHead& head) {
  struct stat status = {};
  if (fstat(trace, &status) != 0) {
    return false;
  }
  head.member_bytes[format::kPackTrace] = static_cast<uint64_t>(status.st_size);
  head.collected_realtime_ns = nanoseconds(CLOCK_REALTIME);
  memcpy(head.boot_id, memory.boot_id, sizeof head.boot_id);
  head.start_time = memory.start_time;
  head.pid = memory.pid;
  head.armed_ticks = memory.armed_ticks;
  head.flags = memory.gone_how == format::kNotSeenGone ? format::kPackRunning : format::kPackGone;
  format::PackWriter writer;
  return writer.begin(file, head) &&
         writer.add_file(format::kPackTrace, trace, head.member_bytes[format::kPackTrace]) &&
         writer.end() && fsync(file) == 0;
}

// HOST.PID.STARTTIME of the copy: after an exec the process has the same name again, with a number.
void add_stem(const FileHeader& memory, Text& name) {
  const char* const slash = strrchr(memory.copy_path, '/');
  if (!slash) {
    name_trace(name, memory.host, memory.pid, memory.start_time, 0, "");
    return;
  }
  const char* const dot = strrchr(slash, '.');
  name.append(slash + 1, static_cast<size_t>((dot ? dot : slash + strlen(slash)) - slash - 1));
}

// That a folder is not there is told by why it could not be created.
int why_not_there(int problem, int not_created) {
  return problem == ENOENT && not_created != 0 ? not_created : problem;
}

// Returns errno.
int pack_into(FileHeader& memory, const char* final_copy) {
  const int not_created = create_folders(memory.collect);
  ShortText stem;
  add_stem(memory, stem);
  ShortText first;
  first << "." << stem.c_str() << "." << static_cast<int64_t>(memory.armed_ticks) << ".part";
  const int folder = open(memory.collect, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return why_not_there(errno, not_created);
  }
  unlinkat(folder, first.c_str(), 0);
  const int file =
      openat(folder, first.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    const int why = errno;
    close(folder);
    return why_not_there(why, not_created);
  }
  const int trace = open_trace(memory, final_copy);
  format::PackHead head = {};
  const bool written = trace >= 0 && write_pack(memory, trace, file, head) && close(file) == 0;
  char name[format::kMostPackName];
  const int problem =
      written ? format::name_pack(folder, first.c_str(), stem.c_str(), head, name) : errno;
  if (problem != 0) {
    unlinkat(folder, first.c_str(), 0);
  }
  close(folder);
  return problem;
}

// Whether a pack could be written there, as far as can be told without writing one.
int probe(FileHeader& memory) {
  constexpr uint64_t kLeastBytes = uint64_t{32} << 10;
  const int not_created = create_folders(memory.collect);
  const int folder = open(memory.collect, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct statvfs status = {};
  if (folder < 0 || faccessat(folder, ".", W_OK | X_OK, 0) != 0 || fstatvfs(folder, &status) != 0) {
    return why_not_there(errno, not_created);
  }
  return static_cast<uint64_t>(status.f_bavail) * status.f_frsize < kLeastBytes ? ENOSPC : 0;
}

}  // namespace

bool Collecting::child_is_at_work() noexcept {
  int status = 0;
  if (child_ > 0 && waitpid(child_, &status, WNOHANG) == child_) {
    child_ = 0;
    const int problem = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    if (packing_ && problem == 0) {
      memory_.collected_realtime_ns = nanoseconds(CLOCK_REALTIME);
    }
    publish(memory_.collect_problem, problem);
  }
  return child_ > 0;
}

template <class Work>
void Collecting::in_child(Work work) noexcept {
  child_ = fork();
  if (child_ == 0) {
    _exit(work());
  }
}

bool Collecting::is_due() noexcept {
  const uint64_t now_ns = nanoseconds(CLOCK_BOOTTIME);
  const uint64_t records = records_of(memory_);
  if (records != records_ || changed_ns_ == 0) {
    records_ = records;
    changed_ns_ = now_ns;
  }
  const uint32_t aborted = aborted_in(memory_);
  const bool is_new_abort = aborted > aborted_;
  aborted_ = aborted;
  const bool is_quiet = now_ns - changed_ns_ >= kQuietNs && records_ != packed_records_ &&
                        (packed_ns_ == 0 || now_ns - packed_ns_ >= kAgainNs);
  if (is_quiet || is_new_abort) {
    packed_ns_ = now_ns;
    packed_records_ = records_;
  }
  return is_quiet || is_new_abort;
}

void Collecting::look() noexcept {
  if (!memory_.collect[0] || child_is_at_work()) {
    return;
  }
  if (!probed_) {
    probed_ = true;
    in_child([&] { return probe(memory_); });
  } else if (is_due()) {
    packing_ = true;
    in_child([&] { return pack_into(memory_, nullptr); });
  }
}

// A child that is still at work hangs on a file server, or is about to be done; its own pack goes
// before ours under the same first name, which ours takes away.
void Collecting::finish(const char* path) noexcept {
  if (memory_.collect[0]) {
    wait_for_child(kBeforeLastNs);
    packing_ = true;
    in_child([&] { return pack_into(memory_, path); });
    wait_for_child(kLastNs);
  }
}

void Collecting::wait_for_child(uint64_t for_ns) noexcept {
  constexpr timespec kWait = {0, 20'000'000};
  const uint64_t end_ns = nanoseconds(CLOCK_BOOTTIME) + for_ns;
  while (child_is_at_work() && nanoseconds(CLOCK_BOOTTIME) < end_ns) {
    nanosleep(&kWait, nullptr);
  }
}

}  // namespace traintrace
