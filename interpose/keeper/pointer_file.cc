#include "interpose/keeper/pointer_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/keeper/copy_place.h"
#include "interpose/life/identity.h"

namespace traintrace {
namespace {

void add_hexadecimal(uint64_t value, Text& content) {
  char digits[17] = {};
  for (int i = 0; i < 16; ++i) {
    digits[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  }
  content << digits;
}

// Hosts may be called alike, as containers are that are all "localhost".
void add_machine(const format::FileHeader& trace, Text& content) {
  content << "boot ";
  add_hexadecimal(trace.boot_id[0], content);
  add_hexadecimal(trace.boot_id[1], content);
  content << "\npids " << static_cast<int64_t>(trace.pid_namespace) << "\n";
}

// What a reader on another host cannot see otherwise: whose trace it is.
void add_launch(const format::FileHeader& trace, Text& content) {
  if (trace.keep_flags & format::kRunOfLauncher) {
    content << "run 0x";
    add_hexadecimal(trace.run_key, content);
    content << "\n";
  }
  if (trace.launch_rank) {
    content << "rank " << int64_t{trace.launch_rank} - 1 << "\n";
  }
  if (trace.launch_world) {
    content << "world " << int64_t{trace.launch_world} << "\n";
  }
}

}  // namespace

void write_pointer_file(const char* dir, const format::FileHeader& trace,
                        const char* target) noexcept {
  if (!dir[0]) {
    return;
  }
  create_folders(dir);
  ShortText content;
  content << "traintrace-pointer 1\n" << target << "\n" << trace.host << "\n";
  add_machine(trace, content);
  add_launch(trace, content);
  for (int attempt = 0; attempt < 100; ++attempt) {
    ShortText path;
    path << dir << "/";
    name_trace(path, trace.host, trace.pid, trace.start_time, attempt, ".pointer");
    if (!path.whole() || !content.whole()) {
      return;
    }
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
