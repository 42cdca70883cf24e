#include "interpose/gpu/marks_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/base/files.h"
#include "interpose/base/undisturbed.h"
#include "interpose/keeper/folder_entries.h"
#include "interpose/record/clock.h"
#include "interpose/record/definitions.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

using format::MarksFileHeader;

constexpr const char* kEnding = ".marks";
constexpr uint64_t kOldNs = 3'600'000'000'000;

constinit MarksFileHeader* g_marks_file = nullptr;
constinit char g_marks_path[kMaxPath] = {};

size_t file_bytes() {
  return format::kMarksHeaderBytes + marks_words_bytes();
}

// A process that lives says so each second, whatever its threads do.
bool is_old(int folder, const char* name) {
  MarksFileHeader header = {};
  const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const ssize_t got = file < 0 ? -1 : read(file, &header, sizeof header);
  if (file >= 0) {
    close(file);
  }
  const uint64_t now_ns = nanoseconds(CLOCK_REALTIME);
  return got == sizeof header &&
         memcmp(header.magic, format::kMarksMagic, sizeof header.magic) == 0 &&
         header.alive_ns < now_ns && now_ns - header.alive_ns > kOldNs;
}

void remove_old(int folder) {
  for_each_entry(folder, kEnding, [&](const char* name) {
    if (is_old(folder, name)) {
      unlinkat(folder, name, 0);
    }
  });
}

// After an exec the process has the same name again.
int create_named(const format::FileHeader& trace) {
  ShortText folder_path;
  folder_path << "/dev/shm/traintrace-" << static_cast<int64_t>(geteuid());
  mkdir(folder_path.c_str(), 0700);
  const int folder = open_private_folder(folder_path.c_str());
  if (folder < 0) {
    return -1;
  }
  remove_old(folder);
  int file = -1;
  for (int attempt = 0; attempt < 100 && file < 0; ++attempt) {
    Text path(g_marks_path, sizeof g_marks_path);
    path << folder_path.c_str() << "/" << trace.host << "." << int64_t{trace.pid} << "."
         << static_cast<int64_t>(trace.start_time);
    if (attempt) {
      path << "." << int64_t{attempt};
    }
    path << kEnding;
    file = open(g_marks_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) {
      break;
    }
  }
  close(folder);
  if (file >= 0 && fallocate(file, 0, 0, static_cast<off_t>(file_bytes())) != 0) {
    unlink(g_marks_path);
    close(file);
    file = -1;
  }
  return file;
}

int create_nameless() {
  g_marks_path[0] = '\0';
  const int file = memfd_create("traintrace-marks", MFD_CLOEXEC);
  if (file >= 0 && fallocate(file, 0, 0, static_cast<off_t>(file_bytes())) != 0) {
    close(file);
    return -1;
  }
  return file;
}

MarksFileHeader* map(int file) {
  void* const memory = mmap(nullptr, file_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  // A child that is forked while the GPU writes must not share the pages.
  madvise(memory, file_bytes(), MADV_DONTFORK);
  return static_cast<MarksFileHeader*>(memory);
}

void fill(MarksFileHeader& header, const format::FileHeader& trace) {
  header.pid = trace.pid;
  header.streams = g_tables.stream_count;
  header.start_time = trace.start_time;
  header.boot_id[0] = trace.boot_id[0];
  header.boot_id[1] = trace.boot_id[1];
  header.alive_ns = nanoseconds(CLOCK_REALTIME);
  memcpy(header.magic, format::kMarksMagic, sizeof header.magic);
}

}  // namespace

size_t marks_words_bytes() noexcept {
  return g_tables.stream_count * sizeof(format::MarkWords);
}

format::MarkWords* marks_file_create(ThreadState& thread) noexcept {
  const Undisturbed undisturbed;
  const int saved_errno = errno;
  const format::FileHeader& trace = *g_tables.file;
  int file = create_named(trace);
  file = file < 0 ? create_nameless() : file;
  MarksFileHeader* const header = file < 0 ? nullptr : map(file);
  if (file >= 0) {
    close(file);
  }
  errno = saved_errno;
  if (header == nullptr) {
    marks_file_remove();
    return nullptr;
  }
  fill(*header, trace);
  publish(g_marks_file, header);
  if (g_marks_path[0]) {
    define_fact(thread, "marks-file", g_marks_path, strlen(g_marks_path));
  }
  return reinterpret_cast<format::MarkWords*>(reinterpret_cast<char*>(header) +
                                              format::kMarksHeaderBytes);
}

void marks_file_alive() noexcept {
  if (MarksFileHeader* const header = load(g_marks_file)) {
    publish(header->alive_ns, nanoseconds(CLOCK_REALTIME));
  }
}

void marks_file_remove() noexcept {
  if (g_marks_path[0]) {
    unlink(g_marks_path);
    g_marks_path[0] = '\0';
  }
}

void marks_file_drop() noexcept {
  g_marks_file = nullptr;
  g_marks_path[0] = '\0';
}

}  // namespace traintrace
