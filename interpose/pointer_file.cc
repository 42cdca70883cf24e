#include "interpose/pointer_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/copy_place.h"
#include "interpose/identity.h"

namespace traintrace {

void write_pointer_file(const char* dir, const format::FileHeader& trace,
                        const char* target) noexcept {
  if (!dir[0]) {
    return;
  }
  create_folders(dir);
  ShortText content;
  content << "traintrace-pointer 1\n" << target << "\n" << trace.host << "\n";
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
